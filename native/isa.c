#include "kernels.h"

#include <string.h>

#include "cpu.h"

typedef struct entry {
    zc_kernel kernel;
    int (*runs)(void);
} entry;

static const entry table[] = {
#define ZC_KERNEL(name, symbol, feature) \
    {{name, zc_fill_##symbol, zc_settle_##symbol, zc_check_##symbol, zc_check_zero_##symbol}, zc_cpu_##feature},
#include "kernels.def"
#undef ZC_KERNEL
};

enum { ENTRIES = sizeof table / sizeof *table };

const zc_kernel *zc_kernel_at(unsigned index) {
    for (unsigned i = 0; i < ENTRIES; i++)
        if (table[i].runs() && index-- == 0) return &table[i].kernel;
    return NULL;
}

const zc_kernel *zc_kernel_find(const char *name) {
    if (!name || !*name) return zc_kernel_at(0);
    for (unsigned i = 0; i < ENTRIES; i++)
        if (!strcmp(table[i].kernel.name, name) && table[i].runs()) return &table[i].kernel;
    return NULL;
}
