/* llama.cpp's sequence-state file (magic 0x67677371), version 4, as a server saves one sequence of text tokens.
 *
 * magic, version, n_words, words (-1, 1, n_tokens, ids, n_media 0); n_stream 1, cell_count; per cell pos i32,
 * n_seq_id 1, seq_id i32; v_trans, n_layer, n_rot_k, n_rot_v; then for every layer K: type i32, row size u64, rows;
 * then for every layer V the same, or, transposed, type i32, element size u32, channels u32, channel-major data. */
#ifndef ZC_STATE_H
#define ZC_STATE_H

#include <stdint.h>

#include "mapping.h"
#include "rows.h"

enum { ZC_STATE_MAGIC = 0x67677371, ZC_STATE_VERSION = 4 };

typedef struct zc_state {
    uint32_t type_k, type_v; /* ggml type numbers */
    uint32_t n_rot_k, n_rot_v;
    uint32_t sequence;
    int32_t first_pos; /* token i stands at position first_pos + i */
    const uint32_t *tokens; /* for saving: the ids, one for each token of the request; NULL: their own indices */
} zc_state;

/* Bytes of the file for the request of `layout`: 28 + 4n + 8 + 12n + 16 + sum over tensors of (12 + n * row). */
uint64_t zc_state_bytes(const zc_layout *layout);

/* Writes the whole file at fd's offset from a packed source; without one (NULL) the rows are holes, which read as
 * zeros. The bytes of the file, or -errno. */
int64_t zc_state_save(int fd, const zc_state *state, const uint8_t *source, const zc_layout *layout);

/* Reads the file straight into the target's rows; `pos` gets the position of every token.
 * The bytes read, or -errno; -ENODATA too short, -E2BIG trailing bytes, -EILSEQ not this format or version,
 * -ESTALE a well-formed file of another geometry. Nothing is adopted. */
int64_t zc_state_restore(int fd, const zc_state *state, uint8_t *target, const zc_layout *layout, int32_t *pos);

/* The decoder's half of the file route, timed inside: opens `path`, restores from it and closes it; with `dmabuf` the
 * reading stands between DMA_BUF_IOCTL_SYNC's start and end. What zc_state_restore returns, or what a system call did;
 * `ns` spans all of it, and is set on success alone. */
int64_t zc_state_load(const char *path, const zc_state *state, const zc_mapping *target, int dmabuf,
                      const zc_layout *layout, int32_t *pos, uint64_t *ns);

#endif
