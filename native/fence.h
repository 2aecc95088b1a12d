/* Waiting for the device's work on a dma-buf, apart from the cache maintenance that follows it. */
#ifndef ZC_FENCE_H
#define ZC_FENCE_H

#include <stdint.h>

/* poll(2) on a dma-buf (linux/dma-buf.h, "Implicit Fence Poll Support"): without ZC_SYNC_WRITE in `flags` until no device
 * will write to it any more, with it until none reads it either. What that took in ns; -ETIMEDOUT after timeout_ms;
 * another -errno. Without this DMA_BUF_IOCTL_SYNC would wait itself, and its time would be the device's. */
int64_t zc_wait_fences(int fd, unsigned flags, int timeout_ms);

#endif
