/* What the CPU that runs this has, by the names that kernels.def, movers.def and flushers.def use. */
#ifndef ZC_CPU_H
#define ZC_CPU_H

#if defined(__x86_64__)
#include <cpuid.h>
#endif

static inline int zc_cpu_always(void) { return 1; }
#if defined(__x86_64__)
static inline int zc_cpu_avx2(void) { return __builtin_cpu_supports("avx2"); }
static inline int zc_cpu_avx512(void) { return __builtin_cpu_supports("avx512f"); }

/* CPUID leaf 7, EBX: older compilers know no names for these two. */
static inline int zc_cpu_leaf7(unsigned bit) {
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b >> bit & 1);
}
static inline int zc_cpu_clflushopt(void) { return zc_cpu_leaf7(23); }
static inline int zc_cpu_clwb(void) { return zc_cpu_leaf7(24); }
#endif

#endif
