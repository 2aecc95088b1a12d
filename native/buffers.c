#include "buffers.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/dma-heap.h>
#include <linux/memfd.h>
#include <linux/udmabuf.h>
#include <string.h>

#include "sys.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u /* Linux 6.3 */
#endif

_Static_assert(UDMABUF_CREATE == 0x40187542 && sizeof(struct udmabuf_create) == 24, "linux/udmabuf.h");
_Static_assert(DMA_HEAP_IOCTL_ALLOC == 0xc0184800 && sizeof(struct dma_heap_allocation_data) == 24,
               "linux/dma-heap.h");

/* An old kernel answers EINVAL to MFD_NOEXEC_SEAL: without it, sealing must still be allowed. */
static int new_memfd(const char *label, unsigned flags) {
    int fd = zc_sys_memfd(label, flags | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    return fd == -EINVAL ? zc_sys_memfd(label, flags | MFD_ALLOW_SEALING) : fd;
}

int zc_memfd_new(const char *label, uint64_t bytes, unsigned kind) {
    unsigned huge = kind == ZC_MEMFD_HUGE_2M ? MFD_HUGETLB | MFD_HUGE_2MB : 0;
    int fd = new_memfd(label, MFD_CLOEXEC | huge);
    if (fd < 0) return fd;
    int status = zc_sys_ftruncate(fd, bytes);
    if (status == 0) status = zc_sys_fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
    if (status == 0) return fd;
    zc_sys_close(fd);
    return status;
}

int zc_udmabuf_new(int device, int memfd, uint64_t bytes) {
    struct udmabuf_create create = {.memfd = (uint32_t)memfd, .flags = UDMABUF_FLAGS_CLOEXEC, .size = bytes};
    return zc_sys_ioctl(device, UDMABUF_CREATE, &create); /* the descriptor is the ioctl's own result */
}

int zc_dmaheap_new(int heap, uint64_t bytes) {
    struct dma_heap_allocation_data data = {.len = bytes, .fd_flags = O_RDWR | O_CLOEXEC};
    int status = zc_sys_ioctl(heap, DMA_HEAP_IOCTL_ALLOC, &data);
    return status < 0 ? status : (int)data.fd;
}
