/* GEM buffers of AMD GPUs (uapi drm/amdgpu_drm.h). */
#include <errno.h>
#include <sys/ioctl.h>

#include "buffers_device.h"
#include "sys.h"

typedef union amdgpu_gem_create {
    struct {
        uint64_t bo_size, alignment, domains, domain_flags;
    } in;
    struct {
        uint32_t handle, pad;
    } out;
} amdgpu_gem_create;

#define AMDGPU_GEM_CREATE _IOWR('d', 0x40, amdgpu_gem_create)

_Static_assert(AMDGPU_GEM_CREATE == 0xc0206440 && sizeof(amdgpu_gem_create) == 32, "amdgpu_drm.h");

int zc_amdgpu_new(int device, uint64_t bytes, uint64_t domain, uint64_t flags, zc_bo *out) {
    amdgpu_gem_create create = {.in = {.bo_size = bytes, .domains = domain, .domain_flags = flags}};
    *out = (zc_bo){.fd = -1};
    int status = zc_sys_ioctl(device, AMDGPU_GEM_CREATE, &create);
    if (status < 0) return status;
    out->size = bytes;
    return zc_bo_export(device, create.out.handle, out);
}
