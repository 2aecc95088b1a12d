#include "mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/dma-buf.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "sys.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif

_Static_assert(DMA_BUF_IOCTL_SYNC == 0x40086200, "the number of linux/dma-buf.h");
_Static_assert(ZC_SYNC_READ == DMA_BUF_SYNC_READ && ZC_SYNC_WRITE == DMA_BUF_SYNC_WRITE &&
                   ZC_SYNC_END == DMA_BUF_SYNC_END,
               "the flags of linux/dma-buf.h");

enum { HUGE = 2 << 20 };

/* Address space of `bytes` on a 2 MiB boundary: huge pages can be mapped huge only where address and offset agree. */
static int reserve_aligned(uint64_t bytes, void **out) {
    char *at;
    if (bytes > UINT64_MAX - HUGE) return -ENOMEM;
    int status = zc_sys_mmap(NULL, -1, bytes + HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, (void **)&at);
    if (status < 0) return status;
    uint64_t page = 4096, head = (HUGE - (uintptr_t)at % HUGE) % HUGE, kept = (bytes + page - 1) / page * page;
    if (head) zc_sys_munmap(at, head);
    if (HUGE - head + bytes > kept) zc_sys_munmap(at + head + kept, bytes + HUGE - head - kept);
    *out = at + head;
    return 0;
}

int zc_map(int fd, uint64_t bytes, zc_mapping *out) {
    int flags = MAP_SHARED | (fd < 0 ? MAP_ANONYMOUS : 0);
    void *at = NULL;
    *out = (zc_mapping){.fd = -1};
    if (bytes >= HUGE && reserve_aligned(bytes, &at) == 0) flags |= MAP_FIXED;
    int status = zc_sys_mmap(at, fd, bytes, PROT_READ | PROT_WRITE, flags, &out->at);
    if (status < 0) {
        if (at) zc_sys_munmap(at, bytes);
        return status;
    }
    out->bytes = bytes;
    out->fd = fd;
    return 0;
}

void zc_unmap(zc_mapping *mapping) {
    if (mapping->at) zc_sys_munmap(mapping->at, mapping->bytes);
    if (mapping->fd >= 0) zc_sys_close(mapping->fd);
    *mapping = (zc_mapping){.fd = -1};
}

int zc_seals(int fd) { return zc_sys_fcntl(fd, F_GET_SEALS, 0); }

int zc_sync(int fd, unsigned flags) {
    struct dma_buf_sync sync = {.flags = flags};
    int status;
    do { /* the kernel's documentation asks for the retry: a fence's wait was cut short */
        status = zc_sys_ioctl(fd, DMA_BUF_IOCTL_SYNC, &sync);
    } while (status == -EAGAIN);
    return status;
}

static int check_kind(int fd, unsigned checks) {
    if (checks & ZC_CHECK_DMABUF) {
        int status = zc_sync(fd, DMA_BUF_SYNC_START | DMA_BUF_SYNC_READ);
        return status < 0 ? -ENOTTY : zc_sync(fd, DMA_BUF_SYNC_END | DMA_BUF_SYNC_READ);
    }
    if (checks & ZC_CHECK_SEALED) {
        int seals = zc_seals(fd);
        return seals >= 0 && (seals & F_SEAL_SHRINK) && (seals & F_SEAL_GROW) ? 0 : -EPERM;
    }
    return -EMEDIUMTYPE;
}

int zc_check_foreign(int fd, uint64_t bytes, unsigned checks) {
    zc_stat st;
    int status = check_kind(fd, checks);
    if (status == 0) status = zc_sys_fstat(fd, &st);
    if (status < 0) return status;
    return st.size < bytes ? -EOVERFLOW : 0;
}

int zc_populate(const zc_mapping *mapping) {
    return zc_sys_madvise(mapping->at, mapping->bytes, MADV_POPULATE_WRITE);
}

int zc_advise_huge(const zc_mapping *mapping) {
    return zc_sys_madvise(mapping->at, mapping->bytes, MADV_HUGEPAGE);
}

int zc_collapse(const zc_mapping *mapping) { return zc_sys_madvise(mapping->at, mapping->bytes, MADV_COLLAPSE); }
