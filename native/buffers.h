/* Getting a descriptor for each kind of memory. Every function returns a new descriptor that the caller owns, or
 * -errno; a half-made buffer is never left behind. */
#ifndef ZC_BUFFERS_H
#define ZC_BUFFERS_H

#include <stdint.h>

enum { ZC_MEMFD_PLAIN = 0, ZC_MEMFD_HUGE_2M = 1 };
/* A memfd of `bytes`, sealed against SHRINK and GROW, not executable where the kernel knows MFD_NOEXEC_SEAL. */
int zc_memfd_new(const char *label, uint64_t bytes, unsigned kind);

/* A udmabuf over all of a sealed memfd: linux/udmabuf.h. `device` is an open /dev/udmabuf. */
int zc_udmabuf_new(int device, int memfd, uint64_t bytes);

/* linux/dma-heap.h; the heap has no sanity check of sizes: the caller has checked that there is room. */
int zc_dmaheap_new(int heap, uint64_t bytes);

typedef struct zc_drm_name {
    char driver[32];
    int32_t major, minor, patch;
} zc_drm_name;
int zc_drm_version(int card, zc_drm_name *out);

/* A dumb buffer of at least `bytes` of a card, exported as a read-write dma-buf; *got is its real size. The handle is
 * closed again: the dma-buf keeps the object. */
int zc_drm_dumb_new(int card, uint64_t bytes, uint64_t *got);
/* Whether a dma-buf is the card's own: the card maps it as its dumb buffer, which it refuses for an import (amdgpu and
 * i915 do not refuse), and a second export of the object has the first one's inode. 1, 0, or -errno. */
int zc_drm_same_object(int card, int dmabuf);

#endif
