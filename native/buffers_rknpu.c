/* Rockchip's vendor NPU driver, DRM flavour (rknpu_ioctl.h of 0.9.8; earlier ones ignore the flags that they lack). */
#include <errno.h>
#include <sys/ioctl.h>

#include "buffers_device.h"
#include "sys.h"

typedef struct rknpu_action {
    uint32_t flags, value;
} rknpu_action;
typedef struct rknpu_mem_create {
    uint32_t handle, flags;
    uint64_t size, obj_addr, dma_addr, sram_size;
    int32_t iommu_domain_id;
    uint32_t core_mask;
} rknpu_mem_create;
typedef struct rknpu_mem_sync {
    uint32_t flags, reserved;
    uint64_t obj_addr, offset, size;
} rknpu_mem_sync;

#define RKNPU_ACTION _IOWR('d', 0x40, rknpu_action)
#define RKNPU_MEM_CREATE _IOWR('d', 0x42, rknpu_mem_create)
#define RKNPU_MEM_SYNC _IOWR('d', 0x45, rknpu_mem_sync)
enum { MEM_SYNC_TO_DEVICE = 1, MEM_SYNC_FROM_DEVICE = 2 };

_Static_assert(RKNPU_ACTION == 0xc0086440 && sizeof(rknpu_action) == 8, "rknpu_ioctl.h");
_Static_assert(RKNPU_MEM_CREATE == 0xc0306442 && sizeof(rknpu_mem_create) == 48, "rknpu_ioctl.h");
_Static_assert(RKNPU_MEM_SYNC == 0xc0206445 && sizeof(rknpu_mem_sync) == 32, "rknpu_ioctl.h");

int zc_rknpu_new(int device, uint64_t bytes, uint32_t flags, zc_bo *out) {
    rknpu_mem_create create = {.flags = flags, .size = bytes};
    *out = (zc_bo){.fd = -1};
    int status = zc_sys_ioctl(device, RKNPU_MEM_CREATE, &create);
    if (status < 0) return status;
    *out = (zc_bo){.size = bytes, .object = create.obj_addr, .sram = create.sram_size, .fd = -1};
    return zc_bo_export(device, create.handle, out);
}

int64_t zc_rknpu_ask(int device, uint32_t action) {
    rknpu_action ask = {.flags = action};
    if (action != ZC_RKNPU_DRV_VERSION && action != ZC_RKNPU_FREE_SRAM) return -EINVAL; /* others reset or switch off */
    int status = zc_sys_ioctl(device, RKNPU_ACTION, &ask);
    return status < 0 ? status : (int64_t)ask.value;
}

/* The driver follows obj_addr unchecked: only that of a handle which is still open here. */
int64_t zc_rknpu_sync(int device, const zc_bo *bo, unsigned direction, uint64_t offset, uint64_t bytes) {
    if (!bo->handle || !bo->object || offset > bo->size || bytes > bo->size - offset) return -EINVAL;
    rknpu_mem_sync sync = {.flags = direction == ZC_TO_DEVICE ? MEM_SYNC_TO_DEVICE : MEM_SYNC_FROM_DEVICE,
                           .obj_addr = bo->object, .offset = offset, .size = bytes};
    uint64_t begin = zc_sys_now();
    int status = zc_sys_ioctl(device, RKNPU_MEM_SYNC, &sync);
    return status < 0 ? status : (int64_t)(zc_sys_now() - begin);
}
