/* The rows' own bytes: writing them, checking them, meeting their pages. */
#include "rows.h"

#include <string.h>

static uint64_t mix(uint64_t z) { /* the finaliser of splitmix64 (Steele, Lea, Flood 2014) */
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

uint64_t zc_row_base(uint64_t nonce, uint32_t layer, uint32_t role, uint32_t token) {
    return mix(mix(nonce + ZC_STEP) ^ ((uint64_t)layer << 33 | (uint64_t)role << 32 | token));
}

static uint64_t base_of(uint64_t nonce, const zc_extent *e, uint32_t i) {
    return zc_row_base(nonce, e->tensor->layer, e->tensor->role, e->token + i);
}

/* Element `channel` of a row: its bytes within the row's pattern. Elements of 1, 2, 4 or 8 bytes never straddle. */
static uint64_t element_of(uint64_t base, uint32_t channel, uint32_t bytes) {
    uint64_t at = (uint64_t)channel * bytes;
    return (base + (at / 8 + 1) * ZC_STEP) >> at % 8 * 8;
}

typedef struct writing {
    uint8_t *region;
    uint64_t nonce;
    const zc_kernel *kernel;
} writing;

static int write_extent(void *context, const zc_extent *e) {
    writing *w = context;
    uint8_t *to = w->region + e->at;
    uint64_t step = zc_cell_bytes(e->tensor);
    if (!e->tensor->channel_stride) {
        for (uint32_t i = 0; i < e->cells; i++) w->kernel->fill(to + i * step, step, base_of(w->nonce, e, i));
        return 0;
    }
    for (uint32_t i = 0; i < e->cells; i++) {
        uint64_t element = element_of(base_of(w->nonce, e, i), e->channel, e->tensor->element_bytes);
        memcpy(to + i * step, &element, step);
    }
    return 0;
}

int zc_rows_write(uint8_t *region, const zc_layout *layout, uint64_t nonce, const zc_kernel *kernel) {
    writing w = {region, nonce, kernel};
    int status = zc_walk(layout, write_extent, &w);
    kernel->settle();
    return status;
}

typedef struct checking {
    const uint8_t *region;
    const zc_layout *layout;
    uint64_t nonce;
    const zc_kernel *kernel;
    zc_difference *out;
} checking;

static void note_row(checking *c, const zc_extent *e, uint32_t i, uint64_t byte) {
    zc_difference *out = c->out;
    if (out->wrong_extents++) return;
    uint64_t in_row = byte + (uint64_t)e->channel * e->tensor->element_bytes;
    *out = (zc_difference){.at = e->at + i * zc_cell_bytes(e->tensor) + byte, .wrong_extents = 1, .kind = 1,
                           .layer = e->tensor->layer, .role = e->tensor->role, .cell = e->cell + i,
                           .byte = (uint32_t)in_row, .inside = 1};
}

static int check_extent(void *context, const zc_extent *e) {
    checking *c = context;
    const uint8_t *from = c->region + e->at;
    uint64_t step = zc_cell_bytes(e->tensor);
    for (uint32_t i = 0; i < e->cells; i++) {
        uint64_t base = base_of(c->nonce, e, i);
        size_t wrong = SIZE_MAX;
        if (!e->tensor->channel_stride) {
            wrong = c->kernel->check(from + i * step, step, base);
        } else {
            uint64_t element = element_of(base, e->channel, e->tensor->element_bytes);
            const uint8_t *expected = (const uint8_t *)&element;
            for (uint64_t b = 0; b < step && wrong == SIZE_MAX; b++)
                if (from[i * step + b] != expected[b]) wrong = b;
        }
        if (wrong == SIZE_MAX) continue;
        note_row(c, e, i, wrong);
        break; /* one report per extent: what else is wrong in it adds nothing */
    }
    return 0;
}

int zc_rows_check(const uint8_t *region, const zc_layout *layout, uint64_t nonce, const zc_kernel *kernel,
                  zc_difference *out) {
    checking c = {region, layout, nonce, kernel, out};
    *out = (zc_difference){0};
    return zc_walk(layout, check_extent, &c);
}

enum { FAULT_AROUND = 64 * 1024 };

typedef struct prereading {
    const uint8_t *region;
    uint64_t next; /* windows below this offset have been read */
} prereading;

static int preread_extent(void *context, const zc_extent *e) {
    prereading *p = context;
    uint64_t end = e->at + e->bytes, at = e->at > p->next ? e->at : p->next;
    for (; at < end; at = (at / FAULT_AROUND + 1) * FAULT_AROUND) (void)*(const volatile uint8_t *)(p->region + at);
    if (at > p->next) p->next = at;
    (void)*(const volatile uint8_t *)(p->region + end - 1); /* the mapping may begin inside a 64 KiB window */
    return 0;
}

int zc_rows_preread(const uint8_t *region, const zc_layout *layout) {
    prereading p = {region, 0};
    return zc_walk(layout, preread_extent, &p);
}
