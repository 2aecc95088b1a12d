#include "fake.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "sys.h"
#include "tap.h"

enum { MOST_FDS = 4096, PAGE = 4096 };

static struct {
    const char *only, *struck;
    unsigned left;
    int error;
    uint64_t most;
    fake_ledger ledger;
    fake_driver drivers[MOST_FDS];
} fake;

void fake_fail(const char *call, unsigned nth, int error) {
    fake.only = call;
    fake.left = nth;
    fake.error = error;
    fake.struck = NULL;
}
int fake_hit(void) { return fake.struck != NULL; }
const char *fake_name(void) { return fake.struck ? fake.struck : "none"; }
void fake_short(uint64_t most) { fake.most = most; }
void fake_count(int descriptors, int handles) {
    fake.ledger.descriptors += descriptors;
    fake.ledger.handles += handles;
}
void fake_device(int fd, fake_driver driver) {
    if (fd >= 0 && fd < MOST_FDS) fake.drivers[fd] = driver;
}

/* 1 where this call is the one that fails. */
static int strikes(const char *call) {
    if (!fake.left || (fake.only && strcmp(fake.only, call))) return 0;
    if (--fake.left) return 0;
    fake.struck = call;
    return 1;
}

static int64_t kernel_descriptors(void) {
    int64_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    if (!folder) return -1;
    while (readdir(folder)) count++;
    closedir(folder);
    return count;
}

fake_ledger fake_balance(void) {
    fake_ledger now = fake.ledger;
    now.of_kernel = kernel_descriptors();
    return now;
}

int fake_same(const fake_ledger *before, const fake_ledger *after) {
    int same = !memcmp(before, after, sizeof *before);
    if (!same)
        tap_comment("left behind: %lld descriptors (%lld by the kernel's count), %lld bytes mapped, %lld allocations, "
                    "%lld handles", (long long)(after->descriptors - before->descriptors),
                    (long long)(after->of_kernel - before->of_kernel), (long long)(after->mapped - before->mapped),
                    (long long)(after->allocations - before->allocations),
                    (long long)(after->handles - before->handles));
    return same;
}

static int opened(int fd) {
    fake.ledger.descriptors += fd >= 0;
    return fd;
}
static int64_t whole_pages(uint64_t bytes) { return (int64_t)((bytes + PAGE - 1) / PAGE * PAGE); }

/* WRAP(result, call, parameters, arguments): declares the real one and begins the wrapper, which fails when struck. */
#define WRAP(type, call, parameters)            \
    type __real_zc_sys_##call parameters;       \
    type __wrap_zc_sys_##call parameters;       \
    type __wrap_zc_sys_##call parameters {      \
        if (strikes(#call)) return -fake.error;

WRAP(int, open, (const char *path, int flags, unsigned mode))
    return opened(__real_zc_sys_open(path, flags, mode));
}
WRAP(int, memfd, (const char *name, unsigned flags))
    return opened(__real_zc_sys_memfd(name, flags));
}
WRAP(int, ftruncate, (int fd, uint64_t size))
    return __real_zc_sys_ftruncate(fd, size);
}
WRAP(int, fcntl, (int fd, int command, int argument))
    int result = __real_zc_sys_fcntl(fd, command, argument);
    return command == F_DUPFD_CLOEXEC || command == F_DUPFD ? opened(result) : result;
}
WRAP(int, fstat, (int fd, zc_stat *out))
    return __real_zc_sys_fstat(fd, out);
}
WRAP(int64_t, fs_type, (int fd))
    return __real_zc_sys_fs_type(fd);
}
WRAP(int64_t, lseek, (int fd, int64_t offset, int whence))
    return __real_zc_sys_lseek(fd, offset, whence);
}
WRAP(int, mmap, (void *at, int fd, uint64_t bytes, int protection, int flags, void **out))
    int status = __real_zc_sys_mmap(at, fd, bytes, protection, flags, out);
    if (status == 0 && !(flags & MAP_FIXED)) fake.ledger.mapped += whole_pages(bytes);
    return status;
}
WRAP(int, madvise, (void *at, uint64_t bytes, int advice))
    return __real_zc_sys_madvise(at, bytes, advice);
}

enum { GEM_CLOSE = 0x40086409 }; /* gives back: never fails */
int __real_zc_sys_ioctl(int fd, unsigned long request, void *argument);
int __wrap_zc_sys_ioctl(int fd, unsigned long request, void *argument);
int __wrap_zc_sys_ioctl(int fd, unsigned long request, void *argument) {
    if (request != GEM_CLOSE && strikes("ioctl")) return -fake.error;
    fake_driver driver = fd >= 0 && fd < MOST_FDS ? fake.drivers[fd] : NULL;
    return driver ? driver(fd, request, argument) : __real_zc_sys_ioctl(fd, request, argument);
}

WRAP(int64_t, sendmsg, (int fd, const struct msghdr *message, int flags))
    return __real_zc_sys_sendmsg(fd, message, flags);
}
WRAP(int64_t, recvmsg, (int fd, struct msghdr *message, int flags))
    int64_t bytes = __real_zc_sys_recvmsg(fd, message, flags);
    for (struct cmsghdr *c = bytes < 0 ? NULL : CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
            fake.ledger.descriptors += (int64_t)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    return bytes;
}
WRAP(int, setsockopt, (int fd, int level, int name, const void *value, unsigned bytes))
    return __real_zc_sys_setsockopt(fd, level, name, value, bytes);
}
WRAP(int, getsockopt, (int fd, int level, int name, void *value, unsigned *bytes))
    return __real_zc_sys_getsockopt(fd, level, name, value, bytes);
}
WRAP(int, poll_in, (int fd, int timeout_ms))
    return __real_zc_sys_poll_in(fd, timeout_ms);
}
WRAP(int, poll_out, (int fd, int timeout_ms))
    return __real_zc_sys_poll_out(fd, timeout_ms);
}
WRAP(int, poll_two, (int first, int second, int timeout_ms))
    return __real_zc_sys_poll_two(first, second, timeout_ms);
}

static const struct iovec *shortened(const struct iovec *pieces, int *count, struct iovec *one) {
    if (!fake.most) return pieces;
    *one = (struct iovec){pieces->iov_base, pieces->iov_len < fake.most ? pieces->iov_len : fake.most};
    *count = 1;
    return one;
}
WRAP(int64_t, readv, (int fd, const struct iovec *pieces, int count))
    struct iovec one;
    pieces = shortened(pieces, &count, &one);
    return __real_zc_sys_readv(fd, pieces, count);
}
WRAP(int64_t, writev, (int fd, const struct iovec *pieces, int count))
    struct iovec one;
    pieces = shortened(pieces, &count, &one);
    return __real_zc_sys_writev(fd, pieces, count);
}

int __real_zc_sys_close(int fd);
int __wrap_zc_sys_close(int fd);
int __wrap_zc_sys_close(int fd) {
    fake_device(fd, NULL);
    int status = __real_zc_sys_close(fd);
    fake.ledger.descriptors -= status == 0;
    return status;
}

int __real_zc_sys_munmap(void *at, uint64_t bytes);
int __wrap_zc_sys_munmap(void *at, uint64_t bytes);
int __wrap_zc_sys_munmap(void *at, uint64_t bytes) {
    int status = __real_zc_sys_munmap(at, bytes);
    if (status == 0) fake.ledger.mapped -= whole_pages(bytes);
    return status;
}

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes) {
    void *at = strikes("malloc") ? NULL : __real_malloc(bytes);
    fake.ledger.allocations += at != NULL;
    return at;
}

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes) {
    void *at = strikes("malloc") ? NULL : __real_calloc(count, bytes);
    fake.ledger.allocations += at != NULL;
    return at;
}

void *__real_realloc(void *old, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes) {
    void *at = strikes("malloc") ? NULL : __real_realloc(old, bytes);
    fake.ledger.allocations += at && !old;
    return at;
}

void __real_free(void *at);
void __wrap_free(void *at);
void __wrap_free(void *at) {
    fake.ledger.allocations -= at != NULL;
    __real_free(at);
}

void fake_sweep(const char *what, fake_once once, void *context, int tolerant) {
    fake_ledger before = fake_balance();
    unsigned calls = 0;
    int good = 1, status = 0;
    while (good) {
        fake_fail(NULL, calls + 1, EIO);
        status = once(context);
        int hit = fake_hit();
        const char *struck = fake_name();
        fake_fail(NULL, 0, 0);
        fake_ledger after = fake_balance();
        good = fake_same(&before, &after) && (hit ? status < 0 || tolerant : status >= 0);
        if (!good) tap_comment("call %u (%s) failing: status %d", calls + 1, struck, status);
        if (!hit) break;
        calls++;
    }
    ok(good && calls, "%s: each of its %u calls failing in turn leaves nothing behind", what, calls);
}
