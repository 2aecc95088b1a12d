#include "rows.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "sys.h"

static uint32_t channels_of(const zc_tensor *t) { return t->channel_stride ? t->row_bytes / t->element_bytes : 1; }
static uint64_t cell_bytes(const zc_tensor *t) { return t->channel_stride ? t->element_bytes : t->row_bytes; }

/* The end of the tensor, or 0 where it overflows. All factors fit 64 bits only after these checks. */
static uint64_t tensor_end(const zc_tensor *t, uint32_t n_cells) {
    uint64_t cells, channels, end;
    if (__builtin_mul_overflow(t->cell_stride, (uint64_t)n_cells - 1, &cells)) return 0;
    if (__builtin_mul_overflow(t->channel_stride, (uint64_t)channels_of(t) - 1, &channels)) return 0;
    if (__builtin_add_overflow(t->offset, cells, &end) || __builtin_add_overflow(end, channels, &end)) return 0;
    return __builtin_add_overflow(end, cell_bytes(t), &end) ? 0 : end;
}

static int tensor_check(const zc_tensor *t, uint32_t n_cells) {
    if (!t->row_bytes || t->role > ZC_ROLE_V) return -EINVAL;
    if (!t->channel_stride) return t->element_bytes || t->cell_stride < t->row_bytes ? -EINVAL : 0;
    if (!t->element_bytes || t->element_bytes > 8 || t->row_bytes % t->element_bytes) return -EINVAL;
    if (t->cell_stride != t->element_bytes || t->channel_stride / n_cells < t->element_bytes) return -EINVAL;
    return 0;
}

static int runs_check(const zc_layout *layout) {
    uint64_t end = 0;
    for (uint32_t r = 0; r < layout->n_runs; r++) {
        const zc_run *run = &layout->runs[r];
        if (!run->count || (r && run->first < end)) return -EINVAL;
        end = (uint64_t)run->first + run->count;
        if (end > layout->n_cells) return -ERANGE;
    }
    return 0;
}

int zc_layout_check(const zc_layout *layout) {
    if (!layout->n_cells || !layout->n_tensors) return -EINVAL;
    uint64_t before = 0;
    for (uint32_t i = 0; i < layout->n_tensors; i++) {
        const zc_tensor *t = &layout->tensors[i];
        int status = tensor_check(t, layout->n_cells);
        if (status < 0) return status;
        uint64_t end = tensor_end(t, layout->n_cells);
        if (!end || end > layout->region_bytes) return -ERANGE;
        if (t->offset < before) return -EINVAL;
        before = end;
    }
    return runs_check(layout);
}

uint64_t zc_layout_tokens(const zc_layout *layout) {
    uint64_t tokens = 0;
    for (uint32_t r = 0; r < layout->n_runs; r++) tokens += layout->runs[r].count;
    return tokens;
}

uint64_t zc_layout_payload(const zc_layout *layout) {
    uint64_t rows = 0;
    for (uint32_t i = 0; i < layout->n_tensors; i++) rows += layout->tensors[i].row_bytes;
    return rows * zc_layout_tokens(layout);
}

/* One run of one channel (or of whole rows): a single extent where cells lie back to back, else one per cell. */
static int walk_run(const zc_tensor *t, const zc_run *run, uint32_t token, uint32_t channel, zc_visit visit,
                    void *context) {
    uint64_t bytes = cell_bytes(t), at = t->offset + channel * t->channel_stride + run->first * t->cell_stride;
    if (t->cell_stride == bytes) {
        zc_extent extent = {t, at, run->count * bytes, run->first, run->count, token, channel};
        return visit(context, &extent);
    }
    for (uint32_t i = 0; i < run->count; i++) {
        zc_extent extent = {t, at + i * t->cell_stride, bytes, run->first + i, 1, token + i, channel};
        int status = visit(context, &extent);
        if (status) return status;
    }
    return 0;
}

int zc_walk(const zc_layout *layout, zc_visit visit, void *context) {
    for (uint32_t i = 0; i < layout->n_tensors; i++) {
        const zc_tensor *t = &layout->tensors[i];
        for (uint32_t channel = 0; channel < channels_of(t); channel++) {
            uint32_t token = 0;
            for (uint32_t r = 0; r < layout->n_runs; token += layout->runs[r++].count) {
                int status = walk_run(t, &layout->runs[r], token, channel, visit, context);
                if (status) return status;
            }
        }
    }
    return 0;
}

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
    uint64_t step = cell_bytes(e->tensor);
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
    return zc_walk(layout, write_extent, &w);
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
    *out = (zc_difference){.at = e->at + i * cell_bytes(e->tensor) + byte, .wrong_extents = 1, .kind = 1,
                           .layer = e->tensor->layer, .role = e->tensor->role, .cell = e->cell + i,
                           .byte = (uint32_t)in_row, .inside = 1};
}

static int check_extent(void *context, const zc_extent *e) {
    checking *c = context;
    const uint8_t *from = c->region + e->at;
    uint64_t step = cell_bytes(e->tensor);
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

typedef struct gaps {
    uint64_t cursor;
    zc_gap gap;
    void *context;
} gaps;

static int gap_before(void *context, const zc_extent *e) {
    gaps *g = context;
    int status = e->at > g->cursor ? g->gap(g->context, g->cursor, e->at - g->cursor) : 0;
    g->cursor = e->at + e->bytes;
    return status;
}

int zc_walk_gaps(const zc_layout *layout, zc_gap gap, void *context) {
    gaps g = {0, gap, context};
    int status = zc_walk(layout, gap_before, &g);
    if (status || g.cursor >= layout->region_bytes) return status;
    return gap(context, g.cursor, layout->region_bytes - g.cursor);
}

/* The guard is one pattern over the whole region, so that any part of it can be filled or checked by itself. */
static uint64_t guard_base(uint64_t seed, uint64_t at) { return seed + at / 8 * ZC_STEP; }
static uint64_t to_word(uint64_t at, uint64_t bytes) {
    uint64_t head = (8 - at % 8) % 8;
    return head < bytes ? head : bytes;
}
static uint8_t guard_byte(uint64_t seed, uint64_t at) {
    return (uint8_t)((guard_base(seed, at) + ZC_STEP) >> at % 8 * 8);
}

static int fill_gap(void *context, uint64_t at, uint64_t bytes) {
    writing *w = context;
    uint64_t head = to_word(at, bytes);
    for (uint64_t i = 0; i < head; i++) w->region[at + i] = w->nonce ? guard_byte(w->nonce, at + i) : 0;
    if (!w->nonce)
        memset(w->region + at + head, 0, bytes - head);
    else
        w->kernel->fill(w->region + at + head, bytes - head, guard_base(w->nonce, at + head));
    return 0;
}

int zc_guard_fill(uint8_t *region, const zc_layout *layout, uint64_t seed, const zc_kernel *kernel) {
    writing w = {region, seed, kernel};
    return zc_walk_gaps(layout, fill_gap, &w);
}

typedef struct guarding {
    checking check;
    int holes_fd;
} guarding;

/* Which tensor's cell a byte belongs to, for the report. */
static void name_place(const zc_layout *layout, uint64_t at, zc_difference *out) {
    for (uint32_t i = 0; i < layout->n_tensors; i++) {
        const zc_tensor *t = &layout->tensors[i];
        if (at < t->offset || at >= tensor_end(t, layout->n_cells)) continue;
        uint64_t inside = at - t->offset, channel = t->channel_stride ? inside / t->channel_stride : 0;
        inside -= channel * t->channel_stride;
        out->layer = t->layer;
        out->role = t->role;
        out->cell = (uint32_t)(inside / t->cell_stride);
        out->byte = (uint32_t)(inside % t->cell_stride + channel * t->element_bytes);
        out->inside = 1;
        return;
    }
}

static void note_guard(guarding *g, uint64_t at) {
    zc_difference *out = g->check.out;
    if (out->wrong_extents++) return;
    out->at = at;
    out->kind = 2;
    name_place(g->check.layout, at, out);
}

static void check_bytes(guarding *g, uint64_t at, uint64_t bytes) {
    const uint8_t *region = g->check.region;
    uint64_t seed = g->check.nonce, head = to_word(at, bytes);
    for (uint64_t i = 0; i < head; i++)
        if (region[at + i] != (seed ? guard_byte(seed, at + i) : 0)) {
            note_guard(g, at + i);
            return;
        }
    size_t wrong = seed ? g->check.kernel->check(region + at + head, bytes - head, guard_base(seed, at + head))
                        : g->check.kernel->check_zero(region + at + head, bytes - head);
    if (wrong != SIZE_MAX) note_guard(g, at + head + wrong);
}

static int check_gap(void *context, uint64_t at, uint64_t bytes) {
    guarding *g = context;
    if (g->holes_fd < 0) {
        check_bytes(g, at, bytes);
        return 0;
    }
    uint64_t end = at + bytes;
    while (at < end) {
        int64_t data = zc_sys_lseek(g->holes_fd, (int64_t)at, SEEK_DATA);
        if (data == -ENXIO || data >= (int64_t)end) return 0; /* only holes up to the end */
        if (data < 0) return (int)data;
        int64_t hole = zc_sys_lseek(g->holes_fd, data, SEEK_HOLE);
        if (hole < 0) return (int)hole;
        uint64_t stop = (uint64_t)hole < end ? (uint64_t)hole : end;
        check_bytes(g, (uint64_t)data, stop - (uint64_t)data);
        at = stop;
    }
    return 0;
}

int zc_guard_check(const uint8_t *region, const zc_layout *layout, uint64_t seed, int holes_fd,
                   const zc_kernel *kernel, zc_difference *out) {
    guarding g = {{region, layout, seed, kernel, out}, seed ? -1 : holes_fd};
    *out = (zc_difference){0};
    return zc_walk_gaps(layout, check_gap, &g);
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
