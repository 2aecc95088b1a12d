#include "fence.h"

#include <errno.h>

#include "mapping.h"
#include "sys.h"

int64_t zc_wait_fences(int fd, unsigned flags, int timeout_ms) {
    uint64_t begin = zc_sys_now();
    int ready = flags & ZC_SYNC_WRITE ? zc_sys_poll_out(fd, timeout_ms) : zc_sys_poll_in(fd, timeout_ms);
    if (ready <= 0) return ready < 0 ? ready : -ETIMEDOUT;
    return (int64_t)(zc_sys_now() - begin);
}
