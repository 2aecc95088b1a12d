/* Ways to fill memory from memory, one per method and instruction set: what `zcopy fill` measures.
 *
 * A mover writes every byte of [to, to + bytes) and nothing else; the two do not overlap. Nothing here enters the
 * kernel. */
#ifndef ZC_MOVERS_H
#define ZC_MOVERS_H

#include <stddef.h>
#include <stdint.h>

typedef struct zc_mover {
    const char *method; /* memcpy, nt (streaming stores), movsb, memset (a constant: reads nothing) */
    const char *isa;
    void (*move)(uint8_t *to, const uint8_t *from, size_t bytes);
    void (*settle)(void); /* makes what was moved visible to others; part of the work */
} zc_mover;

enum { ZC_MEMSET_BYTE = 0x5a };

/* The i-th mover of this build that this CPU can run, best first within a method; NULL past the end. */
const zc_mover *zc_mover_at(unsigned index);
/* The best of a method (isa NULL or ""), or the one of that instruction set; NULL where this CPU or build lacks it. */
const zc_mover *zc_mover_find(const char *method, const char *isa);

#define ZC_MOVER(method, isa, symbol, feature)                      \
    void zc_move_##symbol(uint8_t *, const uint8_t *, size_t bytes); \
    void zc_settled_##symbol(void);
#include "movers.def"
#undef ZC_MOVER

#endif
