#include "stream.h"

#include <errno.h>

#include "io.h"
#include "sys.h"

typedef struct receiving {
    zc_batch batch;
    uint8_t *region;
    uint64_t end_ns; /* a peer that drips bytes does not outlast the deadline */
    int socket;
} receiving;

static int add_extent(void *context, const zc_extent *e) {
    receiving *r = context;
    return zc_batch_add(&r->batch, r->region + e->at, e->bytes);
}

/* An honest provider says "done" after its last write, so that once its message is there, so are all rows. */
static int wait_for_rows(void *context) {
    const receiving *r = context;
    uint64_t now = zc_sys_now();
    if (now >= r->end_ns) return -ETIMEDOUT;
    int ready = zc_sys_poll_two(r->batch.fd, r->socket, (int)((r->end_ns - now) / 1000000) + 1);
    if (ready == -EINTR || (ready > 0 && (ready & 1))) return 0;
    if (ready <= 0) return ready < 0 ? ready : -ETIMEDOUT;
    ready = zc_sys_poll_in(r->batch.fd, 0);
    return ready > 0 ? 0 : ready < 0 ? ready : -ENODATA;
}

int64_t zc_rows_receive(int pipe, int socket, int timeout_ms, uint8_t *region, const zc_layout *layout) {
    receiving r = {.batch = {.transfer = zc_sys_readv, .fd = pipe, .wait = wait_for_rows},
                   .region = region, .socket = socket, .end_ns = zc_sys_now() + (uint64_t)timeout_ms * 1000000};
    r.batch.context = &r;
    int status = zc_walk(layout, add_extent, &r);
    if (status == 0) status = zc_batch_flush(&r.batch);
    return status < 0 ? status : (int64_t)r.batch.bytes;
}
