#include "flush.h"

#include <string.h>

#include "cpu.h"
#include "sys.h"

/* The ABI: Intel SDM vol. 2 (CLFLUSH, CLFLUSHOPT, CLWB; CPUID leaf 1, EBX 15..8), Arm ARM D (DC CVAC, CTR_EL0.DminLine). */
#if defined(__x86_64__)
#include <cpuid.h>

static void fence(void) { __asm__ volatile("mfence" ::: "memory"); }

size_t zc_cache_line(void) {
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (b >> 8 & 0xff) ? (size_t)(b >> 8 & 0xff) * 8 : 64;
}

#define SWEEP(instruction)                                                                            \
    static void sweep_##instruction(const uint8_t *first, const uint8_t *end, size_t line) {           \
        for (; first < end; first += line) __asm__ volatile(#instruction " %0" ::"m"(*first) : "memory"); \
    }
SWEEP(clwb)
SWEEP(clflushopt)
SWEEP(clflush)
#elif defined(__aarch64__)
static void fence(void) { __asm__ volatile("dsb sy" ::: "memory"); }

size_t zc_cache_line(void) {
    uint64_t ctr;
    __asm__("mrs %0, ctr_el0" : "=r"(ctr));
    return (size_t)4 << (ctr >> 16 & 15);
}

static void sweep_cvac(const uint8_t *first, const uint8_t *end, size_t line) {
    for (; first < end; first += line) __asm__ volatile("dc cvac, %0" ::"r"(first) : "memory");
}
#else
static void fence(void) { __sync_synchronize(); }
size_t zc_cache_line(void) { return 64; }
#endif

typedef struct entry {
    zc_flusher flusher;
    int (*runs)(void);
} entry;

static const entry table[] = {
#define ZC_FLUSHER(name, feature) {{#name, sweep_##name}, zc_cpu_##feature},
#include "flushers.def"
#undef ZC_FLUSHER
    {{NULL, NULL}, NULL},
};

const zc_flusher *zc_flusher_at(unsigned index) {
    for (const entry *e = table; e->runs; e++)
        if (e->runs() && index-- == 0) return &e->flusher;
    return NULL;
}

const zc_flusher *zc_flusher_find(const char *name) {
    for (const entry *e = table; e->runs; e++)
        if (e->runs() && (!name || !*name || !strcmp(e->flusher.name, name))) return &e->flusher;
    return NULL;
}

uint64_t zc_flush(const uint8_t *at, uint64_t bytes, const zc_flusher *how) {
    const size_t line = zc_cache_line();
    const uint8_t *first = at - ((uintptr_t)at & (line - 1));
    uint64_t begin = zc_sys_now();
    fence();
    if (bytes) how->sweep(first, at + bytes, line);
    fence();
    return zc_sys_now() - begin;
}
