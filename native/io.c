#include "io.h"

#include <errno.h>

/* Drops `moved` bytes from the front of the pieces; returns how many whole pieces that were. */
static int consume(struct iovec *pieces, int count, uint64_t moved) {
    int i = 0;
    for (; i < count && moved >= pieces[i].iov_len; i++) moved -= pieces[i].iov_len;
    if (i < count) {
        pieces[i].iov_base = (char *)pieces[i].iov_base + moved;
        pieces[i].iov_len -= moved;
    }
    return i;
}

int zc_batch_flush(zc_batch *batch) {
    struct iovec *pieces = batch->pieces;
    int count = batch->count;
    batch->count = 0;
    while (count) {
        int64_t moved = batch->transfer(batch->fd, pieces, count);
        if (moved == -EINTR) continue;
        if (moved == -EAGAIN && batch->wait) {
            int status = batch->wait(batch->context);
            if (status < 0) return status;
            continue;
        }
        if (moved <= 0) return moved < 0 ? (int)moved : -ENODATA;
        batch->bytes += (uint64_t)moved;
        int whole = consume(pieces, count, (uint64_t)moved);
        pieces += whole;
        count -= whole;
    }
    return 0;
}

int zc_batch_add(zc_batch *batch, void *at, uint64_t bytes) {
    if (!bytes) return 0;
    batch->pieces[batch->count++] = (struct iovec){at, bytes};
    return batch->count == ZC_BATCH ? zc_batch_flush(batch) : 0;
}
