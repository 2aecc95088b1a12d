/* Random layouts, and by brute force whose every byte of a region is: what rows.c is compared with. */
#ifndef ZC_LAYOUTS_H
#define ZC_LAYOUTS_H

#include "rows.h"

enum { MOST_TENSORS = 8, MOST_RUNS = 16 };

typedef struct made {
    zc_layout layout; /* points into this: do not copy */
    zc_tensor tensors[MOST_TENSORS];
    zc_run runs[MOST_RUNS];
} made;

typedef struct shape { /* what make_layout may choose from */
    uint32_t most_cells, most_row;
    int transposed; /* V may be */
    int padded;     /* strides wider than rows, gaps between tensors, a tail */
} shape;
void make_layout(made *out, const shape *shape, uint64_t *random);
/* The same tensors and tokens packed: token t in cell t, nothing between the rows. */
void make_packed(made *out, const made *of);
/* Back to back, f16, one run of `cells` from 0: what llama.cpp's CPU buffer looks like. NULL-free or exits. */
zc_layout *make_model(uint32_t layers, uint32_t elements, uint32_t n_ctx, uint32_t cells);

typedef struct owner { /* of one byte */
    int32_t tensor;    /* -1: in no tensor's cell */
    int32_t token;     /* -1: the byte is not the request's */
    uint32_t cell, byte;
} owner;
/* One entry for each byte of the region; the caller frees it. */
owner *owners_of(const zc_layout *layout);

/* The pattern's byte by its definition, one at a time. */
uint8_t pattern_of(const zc_layout *layout, const owner *o, uint64_t nonce);

#endif
