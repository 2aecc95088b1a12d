/* Whole reads and writes of many pieces: short counts are continued, IOV_MAX is respected. */
#ifndef ZC_IO_H
#define ZC_IO_H

#include <stdint.h>
#include <sys/uio.h>

enum { ZC_BATCH = 512 }; /* pieces per system call: below IOV_MAX, and 8 KiB of stack */

typedef struct zc_batch {
    struct iovec pieces[ZC_BATCH];
    int64_t (*transfer)(int fd, const struct iovec *pieces, int count);
    int (*wait)(void *context); /* called when a descriptor that does not block has nothing yet; 0 to go on */
    void *context;
    uint64_t bytes; /* moved so far */
    int fd, count;
} zc_batch;

/* Adds a piece, moving what is gathered when full. 0, -errno, or -ENODATA where a read met the end of the file. */
int zc_batch_add(zc_batch *batch, void *at, uint64_t bytes);
int zc_batch_flush(zc_batch *batch);

#endif
