#include "movers.h"

#include <string.h>

#include "cpu.h"

typedef struct entry {
    zc_mover mover;
    int (*runs)(void);
} entry;

static const entry table[] = {
#define ZC_MOVER(method, isa, symbol, feature) {{method, isa, zc_move_##symbol, zc_settled_##symbol}, zc_cpu_##feature},
#include "movers.def"
#undef ZC_MOVER
};

enum { ENTRIES = sizeof table / sizeof *table };

const zc_mover *zc_mover_at(unsigned index) {
    for (unsigned i = 0; i < ENTRIES; i++)
        if (table[i].runs() && index-- == 0) return &table[i].mover;
    return NULL;
}

const zc_mover *zc_mover_find(const char *method, const char *isa) {
    for (unsigned i = 0; i < ENTRIES; i++) {
        const zc_mover *m = &table[i].mover;
        if (!strcmp(m->method, method) && (!isa || !*isa || !strcmp(m->isa, isa)) && table[i].runs()) return m;
    }
    return NULL;
}

void zc_move_memcpy(uint8_t *to, const uint8_t *from, size_t bytes) { memcpy(to, from, bytes); }
void zc_settled_memcpy(void) {}

void zc_move_memset(uint8_t *to, const uint8_t *from, size_t bytes) {
    (void)from;
    memset(to, ZC_MEMSET_BYTE, bytes);
}
void zc_settled_memset(void) {}

#if defined(__x86_64__)
void zc_move_movsb(uint8_t *to, const uint8_t *from, size_t bytes) {
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}
void zc_settled_movsb(void) {}
#endif
