/* The decoder's cell table: which cell of the KV cache holds which position of which sequences.
 *
 * What adopting means follows llama.cpp's bookkeeping (pos, shift, a set of up to 256 sequence ids per cell, the used
 * cells, per sequence the ordered (pos, cell) pairs, head); the data structure is ours: flat arrays. The sequence
 * sets lie in four planes of one 64-bit word per cell, so that adopting for one sequence touches 8 bytes per cell and
 * not 32, and the ordered pairs are sorted keys pos << 32 | cell, so that the usual case is an append. A free cell's
 * words are zero in every plane, its shift is 0: adopting need not clear them. */
#ifndef ZC_CELLS_H
#define ZC_CELLS_H

#include <stdint.h>

enum { ZC_MAX_SEQUENCES = 256 };

typedef struct zc_cells zc_cells;

/* What to adopt: `count` cells, ascending and distinct, at `cells` (or, where NULL, from `first` on), the i-th of them
 * at position pos[i] >= 0, for each of the `n_sequences` ids. */
typedef struct zc_adoption {
    const uint32_t *cells;
    const int32_t *pos;
    const uint32_t *sequences;
    uint32_t first, count, n_sequences;
} zc_adoption;

/* -EINVAL for a size of 0 or more than 2^31 - 1, -ENOMEM. The caller owns *out and ends it with zc_cells_free. */
int zc_cells_new(uint32_t size, zc_cells **out);
void zc_cells_free(zc_cells *table);

/* All or nothing. 0, or
 *   -EBUSY   a target cell is in use (which: zc_cells_clash)
 *   -ERANGE  a cell outside the table, or cells that do not ascend
 *   -EINVAL  a negative position, no cells, no sequence or an id of 256 or more
 *   -ENOMEM  the sequence's ordered pairs could not grow (see zc_cells_reserve) */
int zc_cells_adopt(zc_cells *table, const zc_adoption *what);
/* Makes room for `count` more pairs of a sequence and brings the memory in, so that adopting allocates nothing. */
int zc_cells_reserve(zc_cells *table, uint32_t sequence, uint32_t count);
/* Takes the sequence out of every cell; cells that no sequence holds any more are free. Returns how many. */
int64_t zc_cells_remove(zc_cells *table, uint32_t sequence);

uint32_t zc_cells_size(const zc_cells *table);
uint32_t zc_cells_used(const zc_cells *table);
uint32_t zc_cells_head(const zc_cells *table);
uint32_t zc_cells_clash(const zc_cells *table); /* the occupied cell that the last -EBUSY met */
int32_t zc_cells_pos(const zc_cells *table, uint32_t cell);   /* -1 where free or outside */
int32_t zc_cells_shift(const zc_cells *table, uint32_t cell);
int zc_cells_has(const zc_cells *table, uint32_t cell, uint32_t sequence);
uint32_t zc_cells_length(const zc_cells *table, uint32_t sequence); /* ordered pairs */
uint64_t zc_cells_pair(const zc_cells *table, uint32_t sequence, uint32_t index); /* pos << 32 | cell; ~0 outside */
/* Rebuilds what can be derived and compares: 0, or -EUCLEAN where the table contradicts itself. */
int zc_cells_audit(const zc_cells *table);

#endif
