/* What a provider does with a BEGIN: write rows, save a sequence state, stream rows; and, on request, do it wrong. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "io.h"
#include "provider.h"
#include "state.h"
#include "sys.h"

/* A faulty writer must not leave the mapping: what would lie outside is not written. */
typedef struct faulty {
    uint8_t *region;
    uint64_t bytes, nonce;
    const zc_kernel *kernel;
} faulty;

static int write_clamped(void *context, const zc_extent *e) {
    faulty *f = context;
    if (e->bytes > f->bytes || e->at > f->bytes - e->bytes) return 0;
    uint64_t base = zc_row_base(f->nonce, e->tensor->layer, e->tensor->role, e->token);
    f->kernel->fill(f->region + e->at, e->bytes, base + e->channel);
    return 0;
}

static int write_wrong(const zc_layout *layout, faulty *f) {
    int status = zc_walk(layout, write_clamped, f);
    f->kernel->settle();
    return status;
}

static int write_run_long(zc_provider *p, const zc_slot *slot, uint64_t nonce) {
    zc_layout layout = zc_slot_layout(slot);
    int status = zc_rows_write(slot->mapping.at, &layout, nonce, p->kernel);
    const zc_run *last = &slot->runs[slot->n_runs - 1];
    zc_run extra = {last->first + last->count, 1};
    layout.runs = &extra;
    layout.n_runs = 1;
    faulty f = {slot->mapping.at, slot->region_bytes, nonce + 1, p->kernel};
    return status < 0 ? status : write_wrong(&layout, &f);
}

static int write_short(zc_provider *p, const zc_slot *slot, uint64_t nonce) {
    zc_layout layout = zc_slot_layout(slot);
    zc_run *last = &slot->runs[slot->n_runs - 1];
    last->count--;
    layout.n_runs -= last->count == 0;
    int status = zc_rows_write(slot->mapping.at, &layout, nonce, p->kernel);
    last->count++;
    return status;
}

/* Swapped: K rows go where V rows belong. Strided: as if a token's K|V row were contiguous in the cache. */
static int write_mistaken(zc_provider *p, const zc_slot *slot, uint64_t nonce, uint32_t inject) {
    zc_tensor *wrong = malloc(slot->n_tensors * sizeof *wrong);
    if (!wrong) return -ENOMEM;
    memcpy(wrong, slot->tensors, slot->n_tensors * sizeof *wrong);
    for (uint32_t i = 0; i < slot->n_tensors; i++) {
        if (inject == ZC_SWAP_KV) wrong[i].role ^= 1;
        if (inject == ZC_STRIDE) wrong[i].cell_stride *= 2;
    }
    zc_layout layout = zc_slot_layout(slot);
    layout.tensors = wrong;
    int status;
    if (inject == ZC_SWAP_KV) {
        status = zc_rows_write(slot->mapping.at, &layout, nonce, p->kernel);
    } else {
        faulty f = {slot->mapping.at, slot->region_bytes, nonce, p->kernel};
        status = write_wrong(&layout, &f);
    }
    free(wrong);
    return status;
}

static int write_rows(zc_provider *p, const zc_slot *slot, uint64_t nonce, uint32_t inject) {
    zc_layout layout = zc_slot_layout(slot);
    switch (inject) {
    case ZC_SOUND:
    case ZC_EARLY_DONE: return zc_rows_write(slot->mapping.at, &layout, nonce, p->kernel);
    case ZC_NO_WRITE: return 0;
    case ZC_RUN_LONG: return write_run_long(p, slot, nonce);
    case ZC_SHORT: return write_short(p, slot, nonce);
    case ZC_SWAP_KV:
    case ZC_STRIDE: return write_mistaken(p, slot, nonce, inject);
    default: return -EINVAL;
    }
}

static void preread(const zc_slot *slot, const zc_layout *layout, zc_done *done) {
    uint64_t faults = zc_sys_minor_faults(), begin = zc_sys_now();
    zc_rows_preread(slot->mapping.at, layout);
    done->preread_ns = zc_sys_now() - begin;
    done->preread_faults = zc_sys_minor_faults() - faults;
}

static int bracket(const zc_slot *slot, unsigned flags) {
    return slot->flags & ZC_REGION_SYNC ? zc_sync(slot->mapping.fd, ZC_SYNC_WRITE | flags) : 0;
}

static int do_write(zc_provider *p, const zc_wire_begin *begin, zc_done *done) {
    const zc_slot *slot = &p->slots[begin->slot];
    zc_layout layout = zc_slot_layout(slot);
    if (begin->flags & ZC_BEGIN_PREREAD) preread(slot, &layout, done);
    int status = zc_asan_forbid(slot);
    uint64_t faults = zc_sys_minor_faults();
    done->begin_ns = zc_sys_now();
    if (status == 0) status = bracket(slot, 0);
    if (status < 0) {
        zc_asan_allow(slot);
        return zc_because(p, status, "DMA_BUF_IOCTL_SYNC before writing");
    }
    status = begin->op == ZC_OP_PLACE ? zc_provider_place(p, slot, begin->inject)
                                      : write_rows(p, slot, begin->nonce, begin->inject);
    int ended = bracket(slot, ZC_SYNC_END);
    done->end_ns = zc_sys_now();
    done->faults = zc_sys_minor_faults() - faults;
    done->bytes = zc_layout_payload(&layout);
    zc_asan_allow(slot);
    if (ended < 0) return zc_because(p, ended, "DMA_BUF_IOCTL_SYNC after writing");
    return status < 0 ? zc_because(p, status, "writing rows") : 0;
}

/* O_NONBLOCK: a FIFO that nobody reads must not hold us. Only what we made ourselves is ours to remove at the end. */
static int open_state(zc_provider *p, const zc_wire_begin *begin, const char *path) {
    const int flags = O_WRONLY | O_NOFOLLOW | O_NONBLOCK;
    int fd = begin->flags & ZC_BEGIN_FRESH_FILE ? -ENOENT : zc_sys_open(path, flags, 0);
    if (fd == -ENOENT) {
        fd = zc_sys_open(path, flags | O_CREAT | O_EXCL, 0600);
        if (fd >= 0) strcpy(p->made, path); /* as long as begin's path, which was measured */
    }
    if (fd < 0) return fd;
    zc_stat st;
    int status = zc_sys_fstat(fd, &st);
    if (status == 0 && !S_ISREG(st.mode)) status = -ENOTSUP;
    if (status == 0) return fd;
    zc_sys_close(fd);
    return status;
}

/* Overwrites in place where the file is there: it is cut to length only after, so that its blocks are reused. */
static int do_save(zc_provider *p, const zc_wire_begin *begin, const char *path, zc_done *done) {
    zc_layout layout = zc_slot_layout(&p->slots[begin->slot]);
    zc_state state = {begin->type_k, begin->type_v, begin->n_rot_k, begin->n_rot_v, begin->sequence,
                      begin->first_pos, NULL};
    done->begin_ns = zc_sys_now();
    int fd = open_state(p, begin, path);
    if (fd < 0) return zc_because(p, fd, "%.200s", path);
    int64_t bytes = zc_state_save(fd, &state, p->slots[begin->slot].mapping.at, &layout);
    int status = bytes < 0 ? (int)bytes : zc_sys_ftruncate(fd, (uint64_t)bytes);
    int closed = zc_sys_close(fd);
    done->end_ns = zc_sys_now();
    if (status == 0) status = closed;
    if (status < 0) return zc_because(p, status, "%.200s", path);
    done->bytes = (uint64_t)bytes;
    return 0;
}

static int stream_extent(void *context, const zc_extent *e) {
    zc_batch *batch = ((void **)context)[0];
    uint8_t *region = ((void **)context)[1];
    return zc_batch_add(batch, region + e->at, e->bytes);
}

static int do_stream(zc_provider *p, const zc_wire_begin *begin, zc_done *done) {
    const zc_slot *slot = &p->slots[begin->slot];
    zc_layout layout = zc_slot_layout(slot);
    zc_batch batch = {.transfer = zc_sys_writev, .fd = p->pipe};
    void *context[2] = {&batch, slot->mapping.at};
    if (p->pipe < 0) return zc_because(p, -EBADF, "no PIPE was passed");
    done->begin_ns = zc_sys_now();
    int status = zc_walk(&layout, stream_extent, context);
    if (status == 0) status = zc_batch_flush(&batch);
    done->end_ns = zc_sys_now();
    done->bytes = batch.bytes;
    return status < 0 ? zc_because(p, status, "writing to the pipe") : 0;
}

zc_done zc_provider_claim(const zc_provider *p, const zc_wire_begin *begin) {
    zc_layout layout = zc_slot_layout(&p->slots[begin->slot]);
    uint64_t now = zc_sys_now();
    int file = begin->op == ZC_OP_SAVE || begin->op == ZC_OP_LOAD;
    return (zc_done){.op = begin->op, .begin_ns = now, .end_ns = now,
                     .bytes = file ? zc_state_bytes(&layout) : zc_layout_payload(&layout)};
}

int zc_provider_do(zc_provider *p, const zc_wire_begin *begin, const char *path, zc_done *done) {
    uint32_t reports = zc_asan_reports();
    int status;
    *done = (zc_done){.op = begin->op};
    switch (begin->op) {
    case ZC_OP_PLACE:
    case ZC_OP_WRITE: status = do_write(p, begin, done); break;
    case ZC_OP_SAVE: status = do_save(p, begin, path, done); break;
    case ZC_OP_STREAM: status = do_stream(p, begin, done); break;
    case ZC_OP_LOAD: status = zc_provider_load(p, begin, path, done); break;
    default: status = zc_because(p, -EINVAL, "unknown operation %u", begin->op);
    }
    done->reports = zc_asan_reports() - reports;
    return status;
}
