#include "layouts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tap.h"

static void *need(size_t bytes) {
    void *at = calloc(1, bytes);
    if (!at) abort();
    return at;
}

static uint32_t padding(const shape *s, uint64_t *random, uint32_t most) {
    return s->padded && tap_below(random, 2) ? tap_below(random, most) : 0;
}

static void row_major(zc_tensor *t, const shape *s, uint64_t *random) {
    t->row_bytes = 1 + tap_below(random, s->most_row);
    t->cell_stride = t->row_bytes + padding(s, random, 40);
}

static void channel_major(zc_tensor *t, const shape *s, uint32_t cells, uint64_t *random) {
    t->element_bytes = 1u << tap_below(random, 4);
    t->row_bytes = t->element_bytes * (1 + tap_below(random, s->most_row / 8 + 1));
    t->cell_stride = t->element_bytes;
    t->channel_stride = (uint64_t)t->element_bytes * cells + padding(s, random, 24);
}

static uint64_t end_of(const zc_tensor *t, uint32_t cells) {
    if (!t->channel_stride) return t->offset + (cells - 1) * t->cell_stride + t->row_bytes;
    return t->offset + (t->row_bytes / t->element_bytes - 1) * t->channel_stride + (uint64_t)cells * t->element_bytes;
}

static void choose_runs(made *m, uint64_t *random) {
    uint32_t at = 0, n = 0;
    while (at < m->layout.n_cells && n < MOST_RUNS) {
        uint32_t gap = tap_below(random, 4);
        if (at + gap >= m->layout.n_cells) break;
        at += gap;
        m->runs[n] = (zc_run){at, 1 + tap_below(random, m->layout.n_cells - at)};
        if (tap_below(random, 2) && m->runs[n].count > 2) m->runs[n].count = 2;
        at += m->runs[n++].count;
    }
    if (!n) m->runs[n++] = (zc_run){0, 1};
    m->layout.n_runs = n;
}

void make_layout(made *m, const shape *s, uint64_t *random) {
    uint32_t layers = 1 + tap_below(random, MOST_TENSORS / 2), cells = 1 + tap_below(random, s->most_cells);
    uint64_t end = padding(s, random, 30);
    *m = (made){.layout = {.tensors = m->tensors, .runs = m->runs, .n_tensors = 2 * layers, .n_cells = cells}};
    int transposed = s->transposed && tap_below(random, 2);
    for (uint32_t i = 0; i < 2 * layers; i++) {
        zc_tensor *t = &m->tensors[i];
        *t = (zc_tensor){.offset = end + padding(s, random, 30), .layer = i / 2, .role = i % 2};
        if (transposed && t->role == ZC_ROLE_V)
            channel_major(t, s, cells, random);
        else
            row_major(t, s, random);
        end = end_of(t, cells);
    }
    m->layout.region_bytes = end + padding(s, random, 50);
    choose_runs(m, random);
}

void make_packed(made *m, const made *of) {
    uint32_t tokens = (uint32_t)zc_layout_tokens(&of->layout);
    uint64_t end = 0;
    *m = *of;
    m->layout.tensors = m->tensors;
    m->layout.runs = m->runs;
    for (uint32_t i = 0; i < m->layout.n_tensors; i++) {
        zc_tensor *t = &m->tensors[i];
        t->offset = end;
        t->cell_stride = t->channel_stride ? t->element_bytes : t->row_bytes;
        if (t->channel_stride) t->channel_stride = (uint64_t)t->element_bytes * tokens;
        end += (uint64_t)t->row_bytes * tokens;
    }
    m->runs[0] = (zc_run){0, tokens};
    m->layout.n_runs = 1;
    m->layout.n_cells = tokens;
    m->layout.region_bytes = end;
}

zc_layout *make_model(uint32_t layers, uint32_t elements, uint32_t n_ctx, uint32_t cells) {
    zc_layout *layout = need(sizeof *layout + 2 * layers * sizeof(zc_tensor) + sizeof(zc_run));
    zc_tensor *tensors = (zc_tensor *)(layout + 1);
    zc_run *run = (zc_run *)(tensors + 2 * layers);
    uint32_t row = 2 * elements;
    for (uint32_t i = 0; i < 2 * layers; i++)
        tensors[i] = (zc_tensor){.offset = (uint64_t)i * row * n_ctx, .cell_stride = row, .row_bytes = row,
                                 .layer = i / 2, .role = i % 2};
    *run = (zc_run){0, cells};
    *layout = (zc_layout){(uint64_t)2 * layers * row * n_ctx, tensors, run, 2 * layers, n_ctx, 1};
    return layout;
}

static int32_t token_of(const zc_layout *layout, uint32_t cell) {
    int32_t token = 0;
    for (uint32_t r = 0; r < layout->n_runs; r++) {
        const zc_run *run = &layout->runs[r];
        if (cell >= run->first && cell < run->first + run->count) return token + (int32_t)(cell - run->first);
        token += (int32_t)run->count;
    }
    return -1;
}

static uint64_t place_of(const zc_tensor *t, uint32_t cell, uint32_t byte) {
    if (!t->channel_stride) return t->offset + cell * t->cell_stride + byte;
    return t->offset + byte / t->element_bytes * t->channel_stride + cell * t->cell_stride + byte % t->element_bytes;
}

owner *owners_of(const zc_layout *layout) {
    owner *of = need(layout->region_bytes * sizeof *of);
    for (uint64_t at = 0; at < layout->region_bytes; at++) of[at] = (owner){.tensor = -1, .token = -1};
    for (uint32_t i = 0; i < layout->n_tensors; i++)
        for (uint32_t cell = 0; cell < layout->n_cells; cell++)
            for (uint32_t byte = 0; byte < layout->tensors[i].row_bytes; byte++)
                of[place_of(&layout->tensors[i], cell, byte)] =
                    (owner){(int32_t)i, token_of(layout, cell), cell, byte};
    return of;
}

uint8_t pattern_of(const zc_layout *layout, const owner *o, uint64_t nonce) {
    const zc_tensor *t = &layout->tensors[o->tensor];
    uint64_t base = zc_row_base(nonce, t->layer, t->role, (uint32_t)o->token);
    return (uint8_t)((base + (o->byte / 8 + 1) * ZC_STEP) >> 8 * (o->byte % 8));
}
