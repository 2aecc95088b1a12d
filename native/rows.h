/* Where the rows of a KV cache lie, and walking over the bytes that a set of cells does and does not own.
 *
 * Layout after llama.cpp's CPU buffer: per layer a tensor cache_k_l<L> and a tensor cache_v_l<L>, back to back. A row
 * is contiguous (channel_stride 0), or, with V transposed, element (cell i, channel j) lies at
 * offset + j * channel_stride + i * cell_stride and cell_stride is the element's size. */
#ifndef ZC_ROWS_H
#define ZC_ROWS_H

#include <stdint.h>

#include "kernels.h"

enum { ZC_ROLE_K = 0, ZC_ROLE_V = 1 };

typedef struct zc_tensor { /* 40 bytes, little endian: also the wire's form */
    uint64_t offset;         /* of cell 0, from the start of the region */
    uint64_t cell_stride;    /* bytes from one cell to the next */
    uint64_t channel_stride; /* bytes from one channel to the next where transposed, else 0 */
    uint32_t row_bytes;      /* bytes of one cell */
    uint32_t element_bytes;  /* of one channel where transposed, else 0 */
    uint32_t layer, role;
} zc_tensor;

typedef struct zc_run { /* cells first .. first + count - 1 */
    uint32_t first, count;
} zc_run;

typedef struct zc_layout {
    uint64_t region_bytes;
    const zc_tensor *tensors; /* ascending offsets */
    const zc_run *runs;       /* the cells of this request, ascending; tokens go into them in order */
    uint32_t n_tensors, n_cells, n_runs;
} zc_layout;

/* Bytes of a cell that lie together: its row, or one element of it where transposed. */
static inline uint64_t zc_cell_bytes(const zc_tensor *t) { return t->channel_stride ? t->element_bytes : t->row_bytes; }
/* The offset of the first byte behind the tensor, or 0 where that overflows. */
uint64_t zc_tensor_end(const zc_tensor *t, uint32_t n_cells);

/* 0; -EINVAL where strides, sizes or order make no sense; -ERANGE where anything would lie outside the region. */
int zc_layout_check(const zc_layout *layout);
uint64_t zc_layout_tokens(const zc_layout *layout);
uint64_t zc_layout_payload(const zc_layout *layout); /* bytes of all rows of the request */

/* A contiguous stretch of owned bytes: `cells` whole rows from `cell` on, or (transposed) one channel's elements. */
typedef struct zc_extent {
    const zc_tensor *tensor;
    uint64_t at, bytes;
    uint32_t cell, cells, token, channel;
} zc_extent;

/* Calls visit for every extent in ascending order of addresses; stops at the first result that is not 0. */
typedef int (*zc_visit)(void *context, const zc_extent *extent);
int zc_walk(const zc_layout *layout, zc_visit visit, void *context);

/* Calls gap for every stretch of the region that no extent owns, ascending. */
typedef int (*zc_gap)(void *context, uint64_t at, uint64_t bytes);
int zc_walk_gaps(const zc_layout *layout, zc_gap gap, void *context);

/* The first wrong byte that a check met. `kind`: 0 none, 1 a row's byte, 2 a byte that nobody may write. */
typedef struct zc_difference {
    uint64_t at, wrong_extents;
    uint32_t kind, layer, role, cell, byte, inside; /* inside: 0 where `at` belongs to no tensor's cell */
} zc_difference;

uint64_t zc_row_base(uint64_t nonce, uint32_t layer, uint32_t role, uint32_t token);
/* Writes / checks every owned byte against the pattern of (nonce, layer, K or V, token, element). */
int zc_rows_write(uint8_t *region, const zc_layout *layout, uint64_t nonce, const zc_kernel *kernel);
int zc_rows_check(const uint8_t *region, const zc_layout *layout, uint64_t nonce, const zc_kernel *kernel,
                  zc_difference *out);

/* Fills / checks every byte that is not owned. With `seed` 0 the guard is zero bytes (fresh memory), and where
 * `holes_fd` is not negative its holes count as zero without being read. */
int zc_guard_fill(uint8_t *region, const zc_layout *layout, uint64_t seed, const zc_kernel *kernel);
int zc_guard_check(const uint8_t *region, const zc_layout *layout, uint64_t seed, int holes_fd,
                   const zc_kernel *kernel, zc_difference *out);

/* Reads one byte of every 64 KiB of the owned bytes: shmem's fault-around maps the rest. Returns a checksum. */
int zc_rows_preread(const uint8_t *region, const zc_layout *layout);
/* Copies every row of `from` to the same token's row of `to`; both describe the same tensors. Returns the bytes. */
int64_t zc_rows_copy(uint8_t *to, const zc_layout *to_layout, const uint8_t *from, const zc_layout *from_layout);

#endif
