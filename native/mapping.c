#include "mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/dma-buf.h>
#include <linux/ioctl.h> /* not every version of dma-buf.h brings it */
#include <linux/mman.h>
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

/* Where `bytes` would lie on a 2 MiB boundary (huge pages are mapped huge only where address and offset agree), or
 * NULL. A hint and no reservation to map over by MAP_FIXED: a hugetlb file rounds its length up to whole pages and
 * would replace what lies behind. */
static void *aligned_hint(uint64_t bytes) {
    void *at;
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    if (bytes < HUGE || bytes > UINT64_MAX - HUGE) return NULL;
    if (zc_sys_mmap(NULL, -1, bytes + HUGE, PROT_NONE, flags, &at) < 0) return NULL;
    zc_sys_munmap(at, bytes + HUGE);
    return (char *)at + (HUGE - (uintptr_t)at % HUGE) % HUGE;
}

static int map(int fd, uint64_t bytes, int flags, zc_mapping *out) {
    *out = (zc_mapping){.fd = -1};
    int status = zc_sys_mmap(aligned_hint(bytes), fd, bytes, PROT_READ | PROT_WRITE, flags, &out->at);
    if (status < 0) return status;
    out->bytes = bytes;
    out->fd = fd;
    return 0;
}

int zc_map(int fd, uint64_t bytes, zc_mapping *out) {
    return map(fd, bytes, fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, out);
}

int zc_map_hugetlb(uint64_t bytes, zc_mapping *out) {
    return map(-1, bytes, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_HUGE_2MB, out);
}

/* A hugetlb mapping ends with a whole page, whatever length was asked for, and is not cut anywhere else. */
static void unmap_whole(void *at, uint64_t bytes) {
    if (zc_sys_munmap(at, bytes) == -EINVAL) zc_sys_munmap(at, (bytes + HUGE - 1) / HUGE * HUGE);
}

void zc_unmap(zc_mapping *mapping) {
    if (mapping->at) unmap_whole(mapping->at, mapping->bytes);
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
