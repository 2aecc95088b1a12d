#include "sys.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

static int result(int value) { return value < 0 ? -errno : value; }
static int64_t result64(int64_t value) { return value < 0 ? -errno : value; }

int zc_sys_open(const char *path, int flags, unsigned mode) { return result(open(path, flags | O_CLOEXEC, mode)); }
int zc_sys_close(int fd) { return result(close(fd)); }
int zc_sys_unlink(const char *path) { return result(unlink(path)); }
int zc_sys_memfd(const char *name, unsigned flags) { return result(memfd_create(name, flags)); }
int zc_sys_ftruncate(int fd, uint64_t size) {
    return size > INT64_MAX ? -EFBIG : result(ftruncate(fd, (off_t)size));
}
int zc_sys_fcntl(int fd, int command, int argument) { return result(fcntl(fd, command, argument)); }
int64_t zc_sys_lseek(int fd, int64_t offset, int whence) { return result64(lseek(fd, offset, whence)); }

int zc_sys_fstat(int fd, zc_stat *out) {
    struct stat st;
    if (fstat(fd, &st) < 0) return -errno;
    *out = (zc_stat){(uint64_t)st.st_size, st.st_dev, st.st_ino, st.st_mode, st.st_uid};
    return 0;
}

int64_t zc_sys_fs_type(int fd) {
    struct statfs fs;
    return fstatfs(fd, &fs) < 0 ? -errno : (int64_t)(uint32_t)fs.f_type;
}

int zc_sys_mmap(void *at, int fd, uint64_t bytes, int protection, int flags, void **out) {
    void *got = mmap(at, bytes, protection, flags, fd, 0);
    if (got == MAP_FAILED) return -errno;
    *out = got;
    return 0;
}
int zc_sys_munmap(void *at, uint64_t bytes) { return result(munmap(at, bytes)); }
int zc_sys_madvise(void *at, uint64_t bytes, int advice) { return result(madvise(at, bytes, advice)); }

int zc_sys_ioctl(int fd, unsigned long request, void *argument) {
    int value;
    do {
        value = ioctl(fd, request, argument);
    } while (value < 0 && errno == EINTR);
    return result(value);
}

int64_t zc_sys_readv(int fd, const struct iovec *pieces, int count) { return result64(readv(fd, pieces, count)); }
int64_t zc_sys_writev(int fd, const struct iovec *pieces, int count) { return result64(writev(fd, pieces, count)); }
int64_t zc_sys_sendmsg(int fd, const struct msghdr *message, int flags) {
    return result64(sendmsg(fd, message, flags | MSG_NOSIGNAL));
}
int64_t zc_sys_recvmsg(int fd, struct msghdr *message, int flags) {
    return result64(recvmsg(fd, message, flags | MSG_CMSG_CLOEXEC));
}
int zc_sys_setsockopt(int fd, int level, int name, const void *value, unsigned bytes) {
    return result(setsockopt(fd, level, name, value, bytes));
}
int zc_sys_getsockopt(int fd, int level, int name, void *value, unsigned *bytes) {
    socklen_t length = *bytes;
    int status = getsockopt(fd, level, name, value, &length);
    *bytes = length;
    return result(status);
}

static int poll_one(int fd, short events, int timeout_ms) {
    struct pollfd one = {.fd = fd, .events = events};
    return result(poll(&one, 1, timeout_ms));
}

int zc_sys_poll_in(int fd, int timeout_ms) { return poll_one(fd, POLLIN, timeout_ms); }
int zc_sys_poll_out(int fd, int timeout_ms) { return poll_one(fd, POLLOUT, timeout_ms); }

int zc_sys_poll_two(int first, int second, int timeout_ms) {
    struct pollfd two[2] = {{.fd = first, .events = POLLIN}, {.fd = second, .events = POLLIN}};
    int ready = poll(two, 2, timeout_ms);
    return ready < 0 ? -errno : (two[0].revents ? 1 : 0) | (two[1].revents ? 2 : 0);
}

uint64_t zc_sys_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t zc_sys_minor_faults(void) {
    struct rusage usage;
    return getrusage(RUSAGE_THREAD, &usage) < 0 ? 0 : (uint64_t)usage.ru_minflt;
}
