/* Moving the rows of a request between two layouts of the same tensors. */
#include <errno.h>
#include <string.h>

#include "rows.h"

static int same_rows(const zc_layout *a, const zc_layout *b) {
    if (a->n_tensors != b->n_tensors || zc_layout_tokens(a) != zc_layout_tokens(b)) return 0;
    for (uint32_t i = 0; i < a->n_tensors; i++) {
        const zc_tensor *s = &a->tensors[i], *t = &b->tensors[i];
        if (s->row_bytes != t->row_bytes || s->element_bytes != t->element_bytes) return 0;
        if (s->layer != t->layer || s->role != t->role) return 0;
    }
    return 1;
}

/* The source is packed: token t of tensor i is its cell t, so every extent of the target is contiguous there too. */
typedef struct copying {
    uint8_t *to;
    const uint8_t *from;
    const zc_layout *target, *source;
    int64_t bytes;
} copying;

static int copy_extent(void *context, const zc_extent *e) {
    copying *c = context;
    const zc_tensor *t = &c->source->tensors[e->tensor - c->target->tensors];
    const uint8_t *from = c->from + t->offset + e->channel * t->channel_stride + e->token * t->cell_stride;
    memcpy(c->to + e->at, from, e->bytes);
    c->bytes += (int64_t)e->bytes;
    return 0;
}

static int packed(const zc_layout *source) {
    if (source->n_runs != 1 || source->runs[0].first) return 0;
    for (uint32_t i = 0; i < source->n_tensors; i++) {
        const zc_tensor *t = &source->tensors[i];
        if (t->cell_stride != (t->channel_stride ? t->element_bytes : t->row_bytes)) return 0;
    }
    return 1;
}

int64_t zc_rows_copy(uint8_t *to, const zc_layout *target, const uint8_t *from, const zc_layout *source) {
    if (!packed(source) || !same_rows(target, source)) return -EINVAL;
    copying c = {to, from, target, source, 0};
    int status = zc_walk(target, copy_extent, &c);
    return status < 0 ? status : c.bytes;
}
