/* The system calls of zcopy, in one place: nothing else in native/ enters the kernel.
 *
 * Every function returns 0, a count or a descriptor, or -errno. Tests wrap these symbols at link time to count
 * descriptors and mappings and to fail the n-th call. */
#ifndef ZC_SYS_H
#define ZC_SYS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

typedef struct zc_stat {
    uint64_t size, dev, ino;
    uint32_t mode, uid;
} zc_stat;

int zc_sys_open(const char *path, int flags, unsigned mode);
int zc_sys_close(int fd);
int zc_sys_unlink(const char *path);
int zc_sys_memfd(const char *name, unsigned flags);
int zc_sys_ftruncate(int fd, uint64_t size);
int zc_sys_fcntl(int fd, int command, int argument);
int zc_sys_fstat(int fd, zc_stat *out);
int64_t zc_sys_fs_type(int fd); /* f_type of statfs(2) */
int64_t zc_sys_lseek(int fd, int64_t offset, int whence);

int zc_sys_mmap(void *at, int fd, uint64_t bytes, int protection, int flags, void **out);
int zc_sys_munmap(void *at, uint64_t bytes);
int zc_sys_madvise(void *at, uint64_t bytes, int advice);
int zc_sys_ioctl(int fd, unsigned long request, void *argument);

int64_t zc_sys_readv(int fd, const struct iovec *pieces, int count);
int64_t zc_sys_writev(int fd, const struct iovec *pieces, int count);
int64_t zc_sys_sendmsg(int fd, const struct msghdr *message, int flags);
int64_t zc_sys_recvmsg(int fd, struct msghdr *message, int flags);
int zc_sys_setsockopt(int fd, int level, int name, const void *value, unsigned bytes);
int zc_sys_getsockopt(int fd, int level, int name, void *value, unsigned *bytes);
/* Waits until fd is readable or its peer is gone: 1 ready, 0 timed out. A negative timeout waits for ever. */
int zc_sys_poll_in(int fd, int timeout_ms);
/* Until fd can be written to. */
int zc_sys_poll_out(int fd, int timeout_ms);
/* The first for two: a mask, 1 for the first and 2 for the second. */
int zc_sys_poll_two(int first, int second, int timeout_ms);

uint64_t zc_sys_now(void);          /* CLOCK_MONOTONIC, ns: comparable between the processes of one box */
uint64_t zc_sys_minor_faults(void); /* of the calling thread since it began */

#endif
