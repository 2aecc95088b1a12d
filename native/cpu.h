/* What the CPU that runs this has, by the names that kernels.def and movers.def use. */
#ifndef ZC_CPU_H
#define ZC_CPU_H

static inline int zc_cpu_always(void) { return 1; }
#if defined(__x86_64__)
static inline int zc_cpu_avx2(void) { return __builtin_cpu_supports("avx2"); }
static inline int zc_cpu_avx512(void) { return __builtin_cpu_supports("avx512f"); }
#endif

#endif
