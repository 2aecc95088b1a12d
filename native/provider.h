/* The provider: a process of its own that writes a prefill's K and V rows where a decoder tells it to. */
#ifndef ZC_PROVIDER_H
#define ZC_PROVIDER_H

#include "mapping.h"
#include "rows.h"
#include "wire.h"

typedef struct zc_slot {
    zc_mapping mapping;
    zc_tensor *tensors; /* owned */
    zc_run *runs;       /* owned */
    uint32_t n_tensors, n_cells, n_runs, total_runs, flags; /* ready when all total_runs are here */
    uint64_t region_bytes;
} zc_slot;

typedef struct zc_pending { /* what an early "done" has left undone */
    zc_wire_begin begin;
    char path[4096];
    int waiting;
} zc_pending;

typedef struct zc_provider {
    int socket, pipe;
    zc_slot slots[ZC_SLOTS];
    const zc_kernel *kernel;
    char made[4096]; /* the file that we created last and that goes when we go; "" for none */
    zc_pending pending;
    char why[ZC_WIRE_TEXT]; /* the sentence that belongs to the last failure */
} zc_provider;

/* Sets `why` and returns the code, so that a failing check is one line. */
int zc_because(zc_provider *p, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Carries a BEGIN out. 0 and *done filled, or -errno and `why`. */
int zc_provider_do(zc_provider *p, const zc_wire_begin *begin, const char *path, zc_done *done);
/* The account that a provider would give which has done nothing: what an early "done" says. */
zc_done zc_provider_claim(const zc_provider *p, const zc_wire_begin *begin);
/* LOAD: the rows of a sequence-state file into a packed slot. PLACE: the packed source's rows into the region. */
int zc_provider_load(zc_provider *p, const zc_wire_begin *begin, const char *path, zc_done *done);
int zc_provider_place(const zc_provider *p, const zc_slot *slot, uint32_t inject);

zc_layout zc_slot_layout(const zc_slot *slot);
void zc_slot_clear(zc_slot *slot);

/* What AddressSanitizer has reported so far; 0 in a build without it. */
uint32_t zc_asan_reports(void);
int zc_asan_built(void);
/* Forbids (and allows again) every byte of the slot's mapping that the request does not own. */
int zc_asan_forbid(const zc_slot *slot);
void zc_asan_allow(const zc_slot *slot);

#endif
