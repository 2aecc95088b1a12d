/* Buffers of accelerators, each exported by PRIME as a read-write dma-buf. ABIs: rknpu_ioctl.h of the vendor's
 * 0.9.8, the kernel's headers for the others, by our own minimal definitions.
 *
 * `device` is an open node of the driver and stays the caller's. The zc_*_new return 0 or -errno and fill *out; on
 * failure nothing is left behind. The caller owns out->fd, and ends
 * out->handle by zc_bo_close on the same open node. */
#ifndef ZC_BUFFERS_DEVICE_H
#define ZC_BUFFERS_DEVICE_H

#include <stdint.h>

typedef struct zc_bo {
    uint64_t size;   /* bytes, as asked for */
    uint64_t object; /* rknpu: the kernel's own word for the live handle, passed back as it came and never made up */
    uint64_t sram;   /* rknpu: bytes of it that lie in SRAM */
    uint32_t handle; /* of the open node; 0: none */
    int32_t fd;      /* the dma-buf, which keeps the memory without the handle */
} zc_bo;

/* Closes the handle, not the dma-buf. Safe on a closed one. */
void zc_bo_close(int device, zc_bo *bo);
/* Exports a new handle as out->fd and puts it into *out; on failure the handle is closed. For the drivers' files. */
int zc_bo_export(int device, uint32_t handle, zc_bo *out);
/* Whether the node exports a dma-buf that it is given under the same inode: 1, 0, or -errno where it does not take it.
 * `device` must be another open file than the buffer's own, whose handle the import would share and close with it.
 * An import that the driver takes from elsewhere would pass, too: the exporter's name has to be asked for beside it. */
int zc_bo_same_object(int device, int dmabuf);

enum { ZC_FROM_DEVICE = 0, ZC_TO_DEVICE = 1 };

/* MEM_CREATE of the DRM flavour. -EFAULT is its word for an exhausted IOVA window. */
int zc_rknpu_new(int device, uint64_t bytes, uint32_t flags, zc_bo *out);
enum { ZC_RKNPU_DRV_VERSION = 1, ZC_RKNPU_FREE_SRAM = 23 };
/* ACTION, of those that only ask: the value, or -errno. */
int64_t zc_rknpu_ask(int device, uint32_t action);
/* MEM_SYNC, of a cacheable buffer made here: ns or -errno. The range must lie inside the buffer, or -EINVAL. */
int64_t zc_rknpu_sync(int device, const zc_bo *bo, unsigned direction, uint64_t offset, uint64_t bytes);

/* A buffer of the type SHARE. */
int zc_amdxdna_new(int device, uint64_t bytes, zc_bo *out);
/* SYNC_BO: ns or -errno. The range must lie inside the buffer, or -EINVAL. Never of an import. */
int64_t zc_amdxdna_sync(int device, const zc_bo *bo, unsigned direction, uint64_t offset, uint64_t bytes);

/* GEM_CREATE in one domain (AMDGPU_GEM_DOMAIN_*) with its flags (AMDGPU_GEM_CREATE_*). */
int zc_amdgpu_new(int device, uint64_t bytes, uint64_t domain, uint64_t flags, zc_bo *out);

/* Less than 4 GiB, or -EINVAL. */
int zc_rocket_new(int device, uint64_t bytes, zc_bo *out);
/* PREP_BO, which waits for the device at most 5 s (-ETIMEDOUT), or FINI_BO; always the whole buffer: ns or -errno. */
int64_t zc_rocket_sync(int device, const zc_bo *bo, unsigned direction);

#endif
