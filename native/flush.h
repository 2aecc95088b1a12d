/* Writing the CPU's caches back to memory by line, as user space may: what drivers of devices that do not snoop leave to
 * their libraries. */
#ifndef ZC_FLUSH_H
#define ZC_FLUSH_H

#include <stddef.h>
#include <stdint.h>

typedef struct zc_flusher {
    const char *name; /* of the instruction: clwb, clflushopt, clflush, cvac */
    void (*sweep)(const uint8_t *first, const uint8_t *end, size_t line);
} zc_flusher;

/* The i-th that this CPU has, best first; NULL past the end. */
const zc_flusher *zc_flusher_at(unsigned index);
/* The best (name NULL or ""), or that one; NULL where this CPU or build lacks it. */
const zc_flusher *zc_flusher_find(const char *name);

/* Bytes of a line of the cache, from the CPU. */
size_t zc_cache_line(void);

/* Writes every line back that holds a byte of [at, at + bytes), between two fences: without the first one a store could
 * overtake the sweep, without the second one who is told next could be faster than it. ns; 0 bytes are none. */
uint64_t zc_flush(const uint8_t *at, uint64_t bytes, const zc_flusher *how);

#endif
