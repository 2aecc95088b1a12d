/* Timed work on memory: filling it by a mover on one or more threads, touching it, reading it. */
#ifndef ZC_FILL_H
#define ZC_FILL_H

#include <stdint.h>

#include "movers.h"

enum { ZC_MOST_THREADS = 256 };

typedef struct zc_fill_job {
    const zc_mover *mover;
    uint8_t *to;
    const uint8_t *from;
    uint64_t bytes;
    uint32_t threads;    /* 1 works in the caller's own */
    uint32_t repeat;     /* so many times one after another, for sizes that the clock cannot see; at least 1 */
    const int32_t *cpus; /* one for each thread, or NULL: where the scheduler likes */
} zc_fill_job;

/* Moves everything `repeat` times; ns from the moment all threads may begin until the last one has settled. 0 or
 * -errno: -EINVAL for no or too many threads or no repeat, what pthread_create and sched_setaffinity say. Threads are made before. */
int zc_fill(const zc_fill_job *job, uint64_t *ns);

/* Writes one byte of every page of `page` bytes, in order: the time it took and this thread's minor page faults. */
void zc_touch(uint8_t *at, uint64_t bytes, uint64_t page, uint64_t *ns, uint64_t *faults);

/* Reads every 64-byte line once; the time. The sum keeps the compiler from leaving it out. */
uint64_t zc_read_through(const uint8_t *from, uint64_t bytes, uint64_t *sum);

#endif
