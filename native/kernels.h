/* The inner loops, one set per instruction set, chosen at run time by what the CPU has or forced by name.
 *
 * A pattern is a byte string given by a 64-bit base: its 8-byte little-endian word j is base + (j + 1) * ZC_STEP.
 * Every word differs from its neighbours, so that bytes out of place by a word, a row or a layer are seen. */
#ifndef ZC_KERNELS_H
#define ZC_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#define ZC_STEP UINT64_C(0x9E3779B97F4A7C15) /* 2^64 / golden ratio, odd: words repeat only after 2^64 */

typedef struct zc_kernel {
    const char *name;
    /* Writes the first `bytes` bytes of the pattern; other processes may see them only after `settle`. */
    void (*fill)(uint8_t *to, size_t bytes, uint64_t base);
    /* Makes what was filled visible before anything that is stored or sent afterwards. Once per request: a fence
     * behind every row waits for the row's lines to reach memory and costs two thirds of the bandwidth. */
    void (*settle)(void);
    /* The offset of the first byte that differs from the pattern, or SIZE_MAX. */
    size_t (*check)(const uint8_t *from, size_t bytes, uint64_t base);
    /* The offset of the first byte that is not zero, or SIZE_MAX. */
    size_t (*check_zero)(const uint8_t *from, size_t bytes);
} zc_kernel;

/* The best kernel of this CPU, or the named one; NULL when there is no such name or the CPU lacks it. */
const zc_kernel *zc_kernel_find(const char *name);
/* The i-th kernel of this build that this CPU can run, best first; NULL past the end. */
const zc_kernel *zc_kernel_at(unsigned index);

#define ZC_KERNEL(name, symbol, feature)                         \
    void zc_fill_##symbol(uint8_t *, size_t, uint64_t);          \
    void zc_settle_##symbol(void);                               \
    size_t zc_check_##symbol(const uint8_t *, size_t, uint64_t); \
    size_t zc_check_zero_##symbol(const uint8_t *, size_t);
#include "kernels.def"
#undef ZC_KERNEL

#endif
