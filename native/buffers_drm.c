/* DRM dumb buffers by our own minimal definitions of drm.h and drm_mode.h (libdrm's headers are not always there). */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>

#include "buffers.h"
#include "buffers_device.h"
#include "sys.h"

typedef struct drm_version {
    int32_t major, minor, patch;
    uint64_t name_len, name, date_len, date, desc_len, desc;
} drm_version;
typedef struct drm_gem_close {
    uint32_t handle, pad;
} drm_gem_close;
typedef struct drm_prime_handle {
    uint32_t handle, flags;
    int32_t fd;
} drm_prime_handle;
typedef struct drm_map_dumb {
    uint32_t handle, pad;
    uint64_t offset;
} drm_map_dumb;
typedef struct drm_create_dumb {
    uint32_t height, width, bpp, flags, handle, pitch;
    uint64_t size;
} drm_create_dumb;

#define DRM_IOCTL_VERSION _IOWR('d', 0x00, drm_version)
#define DRM_IOCTL_GEM_CLOSE _IOW('d', 0x09, drm_gem_close)
#define DRM_IOCTL_PRIME_HANDLE_TO_FD _IOWR('d', 0x2d, drm_prime_handle)
#define DRM_IOCTL_PRIME_FD_TO_HANDLE _IOWR('d', 0x2e, drm_prime_handle)
#define DRM_IOCTL_MODE_CREATE_DUMB _IOWR('d', 0xb2, drm_create_dumb)
#define DRM_IOCTL_MODE_MAP_DUMB _IOWR('d', 0xb3, drm_map_dumb)

_Static_assert(DRM_IOCTL_VERSION == 0xc0406400 && sizeof(drm_version) == 64, "drm.h");
_Static_assert(DRM_IOCTL_GEM_CLOSE == 0x40086409, "drm.h");
_Static_assert(DRM_IOCTL_PRIME_HANDLE_TO_FD == 0xc00c642d && DRM_IOCTL_PRIME_FD_TO_HANDLE == 0xc00c642e, "drm.h");
_Static_assert(DRM_IOCTL_MODE_CREATE_DUMB == 0xc02064b2 && sizeof(drm_create_dumb) == 32, "drm_mode.h");
_Static_assert(DRM_IOCTL_MODE_MAP_DUMB == 0xc01064b3 && sizeof(drm_map_dumb) == 16, "drm_mode.h");

enum { DUMB_WIDTH = 1024, DUMB_BPP = 32 }; /* 4 KiB a line: whole pages, and well inside every driver's maxima */

int zc_drm_version(int card, zc_drm_name *out) {
    drm_version version = {.name_len = sizeof out->driver - 1, .name = (uintptr_t)out->driver};
    memset(out, 0, sizeof *out);
    int status = zc_sys_ioctl(card, DRM_IOCTL_VERSION, &version);
    if (status < 0) return status;
    out->major = version.major;
    out->minor = version.minor;
    out->patch = version.patch;
    return 0;
}

static void close_handle(int card, uint32_t handle) {
    drm_gem_close gone = {.handle = handle};
    zc_sys_ioctl(card, DRM_IOCTL_GEM_CLOSE, &gone);
}

/* The first export decides the access mode for the object's life: always read-write. */
static int export_handle(int card, uint32_t handle) {
    drm_prime_handle prime = {.handle = handle, .flags = O_CLOEXEC | O_RDWR};
    int status = zc_sys_ioctl(card, DRM_IOCTL_PRIME_HANDLE_TO_FD, &prime);
    return status < 0 ? status : prime.fd;
}

int zc_drm_dumb_new(int card, uint64_t bytes, uint64_t *got) {
    const uint64_t line = DUMB_WIDTH * DUMB_BPP / 8;
    uint64_t lines = (bytes + line - 1) / line;
    if (!bytes || bytes > UINT64_MAX - line || lines > UINT32_MAX) return -EINVAL;
    drm_create_dumb dumb = {.height = (uint32_t)lines, .width = DUMB_WIDTH, .bpp = DUMB_BPP};
    int status = zc_sys_ioctl(card, DRM_IOCTL_MODE_CREATE_DUMB, &dumb);
    if (status < 0) return status;
    int fd = dumb.size < bytes ? -EOVERFLOW : export_handle(card, dumb.handle);
    close_handle(card, dumb.handle);
    *got = dumb.size;
    return fd;
}

/* The core refuses to map what was imported from elsewhere: EINVAL. An import exported again has the first export's
 * inode too, so that the inode alone would prove nothing. */
static int is_own(int card, uint32_t handle) {
    drm_map_dumb map = {.handle = handle};
    int status = zc_sys_ioctl(card, DRM_IOCTL_MODE_MAP_DUMB, &map);
    return status == -EINVAL ? 0 : status < 0 ? status : 1;
}

static int same_inode(int dmabuf, int again) {
    zc_stat first, second;
    int status = zc_sys_fstat(dmabuf, &first);
    if (status == 0) status = zc_sys_fstat(again, &second);
    return status < 0 ? status : first.ino == second.ino && first.dev == second.dev;
}

/* Whether the card exports what it holds as `handle` under the dma-buf's inode; ends the handle. */
static int exports_it_again(int card, uint32_t handle, int dmabuf) {
    int again = export_handle(card, handle);
    close_handle(card, handle);
    if (again < 0) return again;
    int status = same_inode(dmabuf, again);
    zc_sys_close(again);
    return status;
}

static int import_handle(int card, int dmabuf, uint32_t *handle) {
    drm_prime_handle prime = {.fd = dmabuf};
    int status = zc_sys_ioctl(card, DRM_IOCTL_PRIME_FD_TO_HANDLE, &prime);
    *handle = prime.handle;
    return status;
}

int zc_drm_same_object(int card, int dmabuf) {
    uint32_t handle;
    int status = import_handle(card, dmabuf, &handle);
    if (status < 0) return status;
    status = is_own(card, handle);
    if (status > 0) return exports_it_again(card, handle, dmabuf);
    close_handle(card, handle);
    return status;
}

int zc_bo_same_object(int device, int dmabuf) {
    uint32_t handle;
    int status = import_handle(device, dmabuf, &handle);
    return status < 0 ? status : exports_it_again(device, handle, dmabuf);
}

int zc_bo_export(int device, uint32_t handle, zc_bo *out) {
    int fd = export_handle(device, handle);
    out->handle = handle;
    out->fd = fd < 0 ? -1 : fd;
    if (fd < 0) zc_bo_close(device, out);
    return fd < 0 ? fd : 0;
}

void zc_bo_close(int device, zc_bo *bo) {
    if (bo->handle) close_handle(device, bo->handle);
    bo->handle = 0;
    bo->object = 0;
}
