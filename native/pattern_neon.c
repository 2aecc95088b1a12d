/* NEON: a fill with streaming stores. Every aarch64 CPU has it, so the base kernel's loops are NEON code already. */
#include <arm_neon.h>

#include "kernels.h"

/* stnp: a pair of registers, stored with the hint that nobody here will read it soon. No intrinsic gives it. */
static void stream(uint8_t *line, size_t lines, uint64_t word) {
    const uint64x2_t two = vdupq_n_u64(2 * ZC_STEP), eight = vdupq_n_u64(8 * ZC_STEP);
    uint64x2_t a = vcombine_u64(vcreate_u64(word), vcreate_u64(word + ZC_STEP));
    uint64x2_t b = vaddq_u64(a, two), c = vaddq_u64(b, two), d = vaddq_u64(c, two);
    for (; lines; lines--, line += 64) {
        __asm__ volatile("stnp %q1, %q2, [%0]\n\tstnp %q3, %q4, [%0, #32]"
                         : : "r"(line), "w"(a), "w"(b), "w"(c), "w"(d) : "memory");
        a = vaddq_u64(a, eight), b = vaddq_u64(b, eight), c = vaddq_u64(c, eight), d = vaddq_u64(d, eight);
    }
}

#define SYMBOL(name) name##_neon_nt
#define PLAIN(name) name##_base
#include "pattern_lines.h"

void zc_settle_neon_nt(void) { __asm__ volatile("dmb ishst" ::: "memory"); }
