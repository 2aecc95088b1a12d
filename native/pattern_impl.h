/* The plain loops of a kernel; each instruction set's file includes this and lets the compiler vectorise for it.
 * SYMBOL(name) gives the functions' names. Loads and stores go through memcpy: any alignment is allowed. */
#include "kernels.h"

#include <string.h>

static uint8_t pattern_byte(uint64_t base, size_t at) {
    return (uint8_t)((base + (at / 8 + 1) * ZC_STEP) >> at % 8 * 8);
}

void SYMBOL(zc_fill)(uint8_t *to, size_t bytes, uint64_t base) {
    size_t words = bytes / 8;
    uint64_t word = base;
    for (size_t j = 0; j < words; j++) { /* added up: 64-bit vectors have no cheap product */
        word += ZC_STEP;
        memcpy(to + j * 8, &word, 8);
    }
    for (size_t at = words * 8; at < bytes; at++) to[at] = pattern_byte(base, at);
}

/* Plain stores need no fence: a message that is sent after them is seen after them. */
void SYMBOL(zc_settle)(void) {}

enum { BLOCK = 512 }; /* words looked at before the difference is asked for: branches stay out of the inner loop */

static size_t first_difference(const uint8_t *from, size_t at, size_t end, uint64_t base) {
    for (; at < end; at++)
        if (from[at] != pattern_byte(base, at)) return at;
    return SIZE_MAX;
}

size_t SYMBOL(zc_check)(const uint8_t *from, size_t bytes, uint64_t base) {
    size_t words = bytes / 8, j = 0;
    while (j < words) {
        size_t end = words - j < BLOCK ? words : j + BLOCK, begin = j;
        uint64_t wrong = 0, expected = base + j * ZC_STEP;
        for (; j < end; j++) {
            uint64_t word;
            memcpy(&word, from + j * 8, 8);
            wrong |= word ^ (expected += ZC_STEP);
        }
        if (wrong) return first_difference(from, begin * 8, end * 8, base);
    }
    return first_difference(from, words * 8, bytes, base);
}

size_t SYMBOL(zc_check_zero)(const uint8_t *from, size_t bytes) {
    size_t at = 0;
    while (at < bytes) {
        size_t end = bytes - at < BLOCK * 8 ? bytes : at + BLOCK * 8, begin = at;
        uint8_t any = 0;
        for (; at < end; at++) any |= from[at];
        if (!any) continue;
        for (at = begin; !from[at];) at++;
        return at;
    }
    return SIZE_MAX;
}
