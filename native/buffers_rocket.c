/* Buffers of the mainline driver of Rockchip's NPU (uapi drm/rocket_accel.h). */
#include <errno.h>
#include <sys/ioctl.h>

#include "buffers_device.h"
#include "sys.h"

typedef struct rocket_create_bo {
    uint32_t size, handle;
    uint64_t dma_address, offset;
} rocket_create_bo;
typedef struct rocket_prep_bo {
    uint32_t handle, reserved;
    int64_t timeout_ns; /* absolute, CLOCK_MONOTONIC */
} rocket_prep_bo;
typedef struct rocket_fini_bo {
    uint32_t handle, reserved;
} rocket_fini_bo;

#define ROCKET_CREATE_BO _IOWR('d', 0x40, rocket_create_bo)
#define ROCKET_PREP_BO _IOW('d', 0x42, rocket_prep_bo)
#define ROCKET_FINI_BO _IOW('d', 0x43, rocket_fini_bo)

_Static_assert(ROCKET_CREATE_BO == 0xc0186440 && sizeof(rocket_create_bo) == 24, "rocket_accel.h");
_Static_assert(ROCKET_PREP_BO == 0x40106442 && sizeof(rocket_prep_bo) == 16, "rocket_accel.h");
_Static_assert(ROCKET_FINI_BO == 0x40086443 && sizeof(rocket_fini_bo) == 8, "rocket_accel.h");

static const int64_t LONGEST_NS = 5000000000; /* nothing works on our buffers: a wait that long is a fault */

int zc_rocket_new(int device, uint64_t bytes, zc_bo *out) {
    *out = (zc_bo){.fd = -1};
    if (bytes > UINT32_MAX) return -EINVAL;
    rocket_create_bo create = {.size = (uint32_t)bytes};
    int status = zc_sys_ioctl(device, ROCKET_CREATE_BO, &create);
    if (status < 0) return status;
    out->size = bytes;
    return zc_bo_export(device, create.handle, out);
}

int64_t zc_rocket_sync(int device, const zc_bo *bo, unsigned direction) {
    if (!bo->handle) return -EINVAL;
    uint64_t begin = zc_sys_now();
    rocket_prep_bo prep = {.handle = bo->handle, .timeout_ns = (int64_t)begin + LONGEST_NS};
    rocket_fini_bo fini = {.handle = bo->handle};
    int status = direction == ZC_TO_DEVICE ? zc_sys_ioctl(device, ROCKET_FINI_BO, &fini)
                                           : zc_sys_ioctl(device, ROCKET_PREP_BO, &prep);
    return status < 0 ? status : (int64_t)(zc_sys_now() - begin);
}
