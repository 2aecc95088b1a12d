/* Where rows lie, and walking over what a request owns and what it does not. */
#include <errno.h>

#include "rows.h"

static uint32_t channels_of(const zc_tensor *t) { return t->channel_stride ? t->row_bytes / t->element_bytes : 1; }

/* All factors fit 64 bits only after these checks. */
uint64_t zc_tensor_end(const zc_tensor *t, uint32_t n_cells) {
    uint64_t cells, channels, end;
    if (__builtin_mul_overflow(t->cell_stride, (uint64_t)n_cells - 1, &cells)) return 0;
    if (__builtin_mul_overflow(t->channel_stride, (uint64_t)channels_of(t) - 1, &channels)) return 0;
    if (__builtin_add_overflow(t->offset, cells, &end) || __builtin_add_overflow(end, channels, &end)) return 0;
    return __builtin_add_overflow(end, zc_cell_bytes(t), &end) ? 0 : end;
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
        uint64_t end = zc_tensor_end(t, layout->n_cells);
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
    uint64_t bytes = zc_cell_bytes(t), at = t->offset + channel * t->channel_stride + run->first * t->cell_stride;
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
