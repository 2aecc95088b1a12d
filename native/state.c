#include "state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io.h"
#include "sys.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the file is little endian and written as it lies in memory");

enum { CELL_BYTES = 12, DATA_HEADER = 12, SUFFIX_WORDS = 4 };

static uint64_t head_bytes(uint64_t tokens) {
    return 4 * (3 + 4 + tokens) + 4 * 2 + CELL_BYTES * tokens + 4 * SUFFIX_WORDS;
}

uint64_t zc_state_bytes(const zc_layout *layout) {
    return head_bytes(zc_layout_tokens(layout)) + (uint64_t)DATA_HEADER * layout->n_tensors +
           zc_layout_payload(layout);
}

static uint32_t n_layers(const zc_layout *layout) {
    uint32_t most = 0;
    for (uint32_t i = 0; i < layout->n_tensors; i++)
        if (layout->tensors[i].layer >= most) most = layout->tensors[i].layer + 1;
    return most;
}

static uint32_t transposed(const zc_layout *layout) {
    for (uint32_t i = 0; i < layout->n_tensors; i++)
        if (layout->tensors[i].channel_stride) return 1;
    return 0;
}

static uint32_t *put(uint32_t *at, uint32_t word) {
    *at = word;
    return at + 1;
}

/* Everything before the tensors. */
static void write_head(uint32_t *at, const zc_state *state, const zc_layout *layout) {
    uint32_t tokens = (uint32_t)zc_layout_tokens(layout);
    const uint32_t prefix[] = {ZC_STATE_MAGIC, ZC_STATE_VERSION, tokens + 4, UINT32_MAX, 1, tokens};
    memcpy(at, prefix, sizeof prefix);
    at += sizeof prefix / sizeof *prefix;
    for (uint32_t i = 0; i < tokens; i++) at = put(at, state->tokens ? state->tokens[i] : i);
    at = put(at, 0); /* n_media */
    at = put(put(at, 1), tokens);
    for (uint32_t i = 0; i < tokens; i++)
        at = put(put(put(at, (uint32_t)state->first_pos + i), 1), state->sequence);
    at = put(put(at, transposed(layout)), n_layers(layout));
    put(put(at, state->n_rot_k), state->n_rot_v);
}

static void write_data_header(uint8_t *to, const zc_state *state, const zc_tensor *t) {
    uint32_t type = t->role == ZC_ROLE_K ? state->type_k : state->type_v;
    memcpy(to, &type, 4);
    if (t->channel_stride) {
        const uint32_t rest[2] = {t->element_bytes, t->row_bytes / t->element_bytes};
        memcpy(to + 4, rest, 8);
    } else {
        const uint64_t row = t->row_bytes;
        memcpy(to + 4, &row, 8);
    }
}

/* The file holds every K before every V; a cache interleaves them. Visits the tensors in the file's order. */
typedef int (*tensor_step)(void *context, uint32_t index);
static int in_file_order(const zc_layout *layout, tensor_step step, void *context) {
    for (uint32_t role = ZC_ROLE_K; role <= ZC_ROLE_V; role++)
        for (uint32_t i = 0; i < layout->n_tensors; i++) {
            if (layout->tensors[i].role != role) continue;
            int status = step(context, i);
            if (status < 0) return status;
        }
    return 0;
}

typedef struct transfer {
    zc_batch batch;
    const zc_state *state;
    const zc_layout *layout;
    uint8_t *region;
    uint8_t *headers; /* DATA_HEADER bytes per tensor */
} transfer;

static int add_extent(void *context, const zc_extent *e) {
    transfer *t = context;
    return zc_batch_add(&t->batch, t->region + e->at, e->bytes);
}

/* Where the rows of `layout` would be, a hole. */
static int skip_rows(transfer *t, const zc_layout *layout) {
    uint64_t bytes = zc_layout_payload(layout);
    int status = zc_batch_flush(&t->batch);
    if (status < 0) return status;
    int64_t at = zc_sys_lseek(t->batch.fd, (int64_t)bytes, SEEK_CUR);
    t->batch.bytes += bytes;
    return at < 0 ? (int)at : 0;
}

static int add_tensor(void *context, uint32_t index) {
    transfer *t = context;
    int status = zc_batch_add(&t->batch, t->headers + DATA_HEADER * index, DATA_HEADER);
    if (status < 0) return status;
    zc_layout one = *t->layout;
    one.tensors += index;
    one.n_tensors = 1;
    return t->region ? zc_walk(&one, add_extent, t) : skip_rows(t, &one);
}

/* A file that ends in a hole is only as long as what was written. */
static int end_of_holes(const transfer *t) {
    if (t->region) return 0;
    int64_t end = zc_sys_lseek(t->batch.fd, 0, SEEK_CUR);
    return end < 0 ? (int)end : zc_sys_ftruncate(t->batch.fd, (uint64_t)end);
}

static int move_all(transfer *t, void *head, uint64_t bytes) {
    int status = zc_batch_add(&t->batch, head, bytes);
    if (status < 0) return status;
    status = in_file_order(t->layout, add_tensor, t);
    return status < 0 ? status : zc_batch_flush(&t->batch);
}

int64_t zc_state_save(int fd, const zc_state *state, const uint8_t *source, const zc_layout *layout) {
    uint64_t bytes = head_bytes(zc_layout_tokens(layout));
    uint32_t *head = malloc(bytes);
    uint8_t *headers = malloc((size_t)DATA_HEADER * layout->n_tensors);
    int status = head && headers ? 0 : -ENOMEM;
    transfer t = {.batch = {.transfer = zc_sys_writev, .fd = fd}, .state = state, .layout = layout,
                  .region = (uint8_t *)(uintptr_t)source, .headers = headers};
    if (status == 0) {
        write_head(head, state, layout);
        for (uint32_t i = 0; i < layout->n_tensors; i++)
            write_data_header(headers + DATA_HEADER * i, state, &layout->tensors[i]);
        status = move_all(&t, head, bytes);
        if (status == 0) status = end_of_holes(&t);
    }
    free(headers);
    free(head);
    return status < 0 ? status : (int64_t)t.batch.bytes;
}

static int check_length(int fd, uint64_t expected) {
    zc_stat st;
    int status = zc_sys_fstat(fd, &st);
    if (status < 0) return status;
    if (st.size < 12) return -ENODATA;
    return st.size < expected ? -ENODATA : st.size > expected ? -E2BIG : 0;
}

/* Magic and version say whether this is such a file at all; all else must be what this geometry's writer writes. */
static int check_head(const uint32_t *head, const zc_state *state, const zc_layout *layout, int32_t *pos) {
    uint32_t tokens = (uint32_t)zc_layout_tokens(layout);
    if (head[0] != ZC_STATE_MAGIC || head[1] != ZC_STATE_VERSION) return -EILSEQ;
    if (head[2] != tokens + 4 || head[3] != UINT32_MAX || head[4] != 1 || head[5] != tokens) return -ESTALE;
    const uint32_t *at = head + 7 + tokens;
    if (at[-1] != 0) return -ESTALE; /* n_media */
    if (at[0] != 1 || at[1] != tokens) return -ESTALE;
    at += 2;
    for (uint32_t i = 0; i < tokens; i++, at += 3) {
        if (at[1] != 1 || at[2] != state->sequence) return -ESTALE;
        pos[i] = (int32_t)at[0];
    }
    const uint32_t suffix[SUFFIX_WORDS] = {transposed(layout), n_layers(layout), state->n_rot_k, state->n_rot_v};
    return memcmp(at, suffix, sizeof suffix) ? -ESTALE : 0;
}

static int check_data_headers(const transfer *t) {
    for (uint32_t i = 0; i < t->layout->n_tensors; i++) {
        uint8_t expected[DATA_HEADER];
        write_data_header(expected, t->state, &t->layout->tensors[i]);
        if (memcmp(expected, t->headers + DATA_HEADER * i, DATA_HEADER)) return -ESTALE;
    }
    return 0;
}

static int restore(transfer *t, uint32_t *head, uint64_t bytes, int32_t *pos) {
    int status = zc_batch_add(&t->batch, head, bytes);
    if (status == 0) status = zc_batch_flush(&t->batch);
    if (status == 0) status = check_head(head, t->state, t->layout, pos);
    if (status == 0) status = in_file_order(t->layout, add_tensor, t);
    if (status == 0) status = zc_batch_flush(&t->batch);
    return status == 0 ? check_data_headers(t) : status;
}

int64_t zc_state_restore(int fd, const zc_state *state, uint8_t *target, const zc_layout *layout, int32_t *pos) {
    int status = check_length(fd, zc_state_bytes(layout));
    if (status < 0) return status;
    uint64_t bytes = head_bytes(zc_layout_tokens(layout));
    uint32_t *head = malloc(bytes);
    uint8_t *headers = calloc(layout->n_tensors, DATA_HEADER);
    transfer t = {.batch = {.transfer = zc_sys_readv, .fd = fd}, .state = state, .layout = layout,
                  .region = target, .headers = headers};
    status = head && headers ? restore(&t, head, bytes, pos) : -ENOMEM;
    free(headers);
    free(head);
    return status < 0 ? status : (int64_t)t.batch.bytes;
}

static int64_t restore_bracketed(int fd, const zc_state *state, const zc_mapping *target, int dmabuf,
                                 const zc_layout *layout, int32_t *pos) {
    const unsigned both = ZC_SYNC_READ | ZC_SYNC_WRITE;
    int status = dmabuf ? zc_sync(target->fd, both) : 0;
    if (status < 0) return status;
    int64_t bytes = zc_state_restore(fd, state, target->at, layout, pos);
    status = dmabuf ? zc_sync(target->fd, both | ZC_SYNC_END) : 0;
    return bytes < 0 || status == 0 ? bytes : status;
}

int64_t zc_state_load(const char *path, const zc_state *state, const zc_mapping *target, int dmabuf,
                      const zc_layout *layout, int32_t *pos, uint64_t *ns) {
    uint64_t begin = zc_sys_now();
    int fd = zc_sys_open(path, O_RDONLY, 0);
    if (fd < 0) return fd;
    int64_t bytes = restore_bracketed(fd, state, target, dmabuf, layout, pos);
    zc_sys_close(fd);
    if (bytes >= 0) *ns = zc_sys_now() - begin;
    return bytes;
}
