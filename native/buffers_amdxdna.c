/* Shared buffers of AMD's NPU (uapi drm/amdxdna_accel.h). */
#include <errno.h>
#include <sys/ioctl.h>

#include "buffers_device.h"
#include "sys.h"

typedef struct amdxdna_create_bo {
    uint64_t flags, vaddr, size;
    uint32_t type, handle;
} amdxdna_create_bo;
typedef struct amdxdna_sync_bo {
    uint32_t handle, direction;
    uint64_t offset, size;
} amdxdna_sync_bo;

#define AMDXDNA_CREATE_BO _IOWR('d', 0x43, amdxdna_create_bo)
#define AMDXDNA_SYNC_BO _IOWR('d', 0x45, amdxdna_sync_bo)
enum { BO_SHARE = 1, SYNC_TO_DEVICE = 0, SYNC_FROM_DEVICE = 1 };

_Static_assert(AMDXDNA_CREATE_BO == 0xc0206443 && sizeof(amdxdna_create_bo) == 32, "amdxdna_accel.h");
_Static_assert(AMDXDNA_SYNC_BO == 0xc0186445 && sizeof(amdxdna_sync_bo) == 24, "amdxdna_accel.h");

int zc_amdxdna_new(int device, uint64_t bytes, zc_bo *out) {
    amdxdna_create_bo create = {.size = bytes, .type = BO_SHARE};
    *out = (zc_bo){.fd = -1};
    int status = zc_sys_ioctl(device, AMDXDNA_CREATE_BO, &create);
    if (status < 0) return status;
    out->size = bytes;
    return zc_bo_export(device, create.handle, out);
}

/* Old drivers check no range, and take the box down for one beyond the buffer. */
int64_t zc_amdxdna_sync(int device, const zc_bo *bo, unsigned direction, uint64_t offset, uint64_t bytes) {
    if (!bo->handle || offset > bo->size || bytes > bo->size - offset) return -EINVAL;
    amdxdna_sync_bo sync = {.handle = bo->handle, .offset = offset, .size = bytes};
    sync.direction = direction == ZC_TO_DEVICE ? SYNC_TO_DEVICE : SYNC_FROM_DEVICE;
    uint64_t begin = zc_sys_now();
    int status = zc_sys_ioctl(device, AMDXDNA_SYNC_BO, &sync);
    return status < 0 ? status : (int64_t)(zc_sys_now() - begin);
}
