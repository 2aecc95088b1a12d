/* The bytes that nobody may write: filling them with a guard, and checking that it still stands. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "rows.h"
#include "sys.h"

typedef struct guarding {
    uint8_t *region;
    const zc_layout *layout;
    uint64_t seed;
    const zc_kernel *kernel;
    zc_difference *out;
    int holes_fd;
} guarding;

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
    guarding *g = context;
    uint64_t head = to_word(at, bytes);
    for (uint64_t i = 0; i < head; i++) g->region[at + i] = g->seed ? guard_byte(g->seed, at + i) : 0;
    if (!g->seed)
        memset(g->region + at + head, 0, bytes - head);
    else
        g->kernel->fill(g->region + at + head, bytes - head, guard_base(g->seed, at + head));
    return 0;
}

int zc_guard_fill(uint8_t *region, const zc_layout *layout, uint64_t seed, const zc_kernel *kernel) {
    guarding g = {.region = region, .layout = layout, .seed = seed, .kernel = kernel};
    int status = zc_walk_gaps(layout, fill_gap, &g);
    kernel->settle();
    return status;
}

/* Which tensor's cell a byte belongs to, for the report. */
static void name_place(const zc_layout *layout, uint64_t at, zc_difference *out) {
    for (uint32_t i = 0; i < layout->n_tensors; i++) {
        const zc_tensor *t = &layout->tensors[i];
        if (at < t->offset || at >= zc_tensor_end(t, layout->n_cells)) continue;
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
    zc_difference *out = g->out;
    if (out->wrong_extents++) return;
    out->at = at;
    out->kind = 2;
    name_place(g->layout, at, out);
}

static void check_bytes(guarding *g, uint64_t at, uint64_t bytes) {
    const uint8_t *region = g->region;
    uint64_t seed = g->seed, head = to_word(at, bytes);
    for (uint64_t i = 0; i < head; i++)
        if (region[at + i] != (seed ? guard_byte(seed, at + i) : 0)) {
            note_guard(g, at + i);
            return;
        }
    size_t wrong = seed ? g->kernel->check(region + at + head, bytes - head, guard_base(seed, at + head))
                        : g->kernel->check_zero(region + at + head, bytes - head);
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
    guarding g = {(uint8_t *)(uintptr_t)region, layout, seed, kernel, out, seed ? -1 : holes_fd};
    *out = (zc_difference){0};
    return zc_walk_gaps(layout, check_gap, &g);
}
