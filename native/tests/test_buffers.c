/* Mappings and memfds for real; udmabuf, dma-heap and DRM against simulated drivers (fake_drivers.h). */
#include "buffers.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake.h"
#include "fake_drivers.h"
#include "mapping.h"
#include "sys.h"
#include "tap.h"

enum { PAGE = 4096, HUGE_PAGE = 2 << 20 };

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif

static uint64_t size_of(int fd) {
    struct stat st;
    return fstat(fd, &st) ? 0 : (uint64_t)st.st_size;
}

/* One resource from its making to its end, as a sweep wants it. */
typedef struct bytes {
    uint64_t count;
    int device;
} bytes;

static int map_anonymous(void *context) {
    zc_mapping mapping = {.fd = -1};
    int status = zc_map(-1, ((bytes *)context)->count, &mapping);
    if (status < 0 && (mapping.at || mapping.fd != -1)) status = 1; /* half-built */
    zc_unmap(&mapping);
    zc_unmap(&mapping); /* closed twice: harmless */
    return status;
}

static int map_memfd(void *context) {
    zc_mapping mapping;
    uint64_t count = ((bytes *)context)->count;
    int fd = zc_memfd_new("test", count, ZC_MEMFD_PLAIN);
    if (fd < 0) return fd;
    int status = zc_check_foreign(fd, count, ZC_CHECK_SEALED);
    if (status == 0) status = zc_map(fd, count, &mapping);
    if (status < 0) {
        zc_sys_close(fd); /* zc_map takes it over only when it succeeds */
        return status;
    }
    memset(mapping.at, 1, count);
    zc_unmap(&mapping);
    return 0;
}

static void mappings(void) {
    zc_mapping mapping;
    fake_sweep("mapping a page", map_anonymous, &(bytes){PAGE, -1}, 0);
    fake_sweep("mapping 2 MiB and a page", map_anonymous, &(bytes){HUGE_PAGE + PAGE, -1}, 1);
    fake_sweep("a memfd, checked and mapped", map_memfd, &(bytes){PAGE, -1}, 0);
    is(zc_map(-1, 0, &mapping), -EINVAL, "nothing cannot be mapped");
    is(zc_map(-1, UINT64_MAX, &mapping), -ENOMEM, "nor everything");
    is(zc_map(-1, UINT64_MAX - HUGE_PAGE, &mapping), -ENOMEM, "nor nearly everything");
    ok(!mapping.at && mapping.fd == -1, "and nothing is handed out");
    int aligned = 1;
    for (int i = 0; i < 8; i++) {
        aligned = aligned && zc_map(-1, (uint64_t)HUGE_PAGE + (uint64_t)i * PAGE, &mapping) == 0;
        aligned = aligned && (uintptr_t)mapping.at % HUGE_PAGE == 0 && zc_populate(&mapping) == 0;
        zc_unmap(&mapping);
    }
    ok(aligned, "mappings of 2 MiB and more begin on a 2 MiB boundary");
}

/* A hugetlb file rounds a mapping's length up; it must neither replace its neighbour nor outlive zc_unmap. */
static void huge_pages(void) {
    zc_mapping mapping = {.fd = -1};
    int fd = zc_memfd_new("test", 2 * HUGE_PAGE, ZC_MEMFD_HUGE_2M);
    if (fd < 0 || zc_map(fd, HUGE_PAGE + PAGE, &mapping) < 0) {
        if (fd >= 0) zc_sys_close(fd);
        tap_skip("a hugetlb mapping that is no multiple of 2 MiB", "no huge pages are set aside here");
        return;
    }
    char *at = mapping.at;
    at[2 * HUGE_PAGE - 1] = 1;
    zc_unmap(&mapping);
    unsigned char resident;
    ok(mincore(at, PAGE, &resident) < 0 && errno == ENOMEM, "a hugetlb mapping that is no multiple of 2 MiB is unmapped");
}

static int new_memfd(void *context) {
    int fd = zc_memfd_new("test", ((bytes *)context)->count, ZC_MEMFD_PLAIN);
    return fd < 0 ? fd : zc_sys_close(fd);
}

static void memfds(void) {
    fake_sweep("a new memfd", new_memfd, &(bytes){PAGE, -1}, 0);
    int fd = zc_memfd_new("test", 3 * PAGE + 1, ZC_MEMFD_PLAIN), seals = zc_seals(fd);
    is(size_of(fd), 3 * PAGE + 1, "a memfd of the size asked for");
    ok((seals & F_SEAL_SHRINK) && (seals & F_SEAL_GROW), "sealed against shrinking and growing");
    ok(ftruncate(fd, 0) < 0 && errno == EPERM, "which the kernel keeps");
    ok(fcntl(fd, F_GETFD) & FD_CLOEXEC, "closed on exec");
    zc_sys_close(fd);
    fake_fail("memfd", 1, EINVAL);
    fd = zc_memfd_new("test", PAGE, ZC_MEMFD_PLAIN);
    ok(fake_hit() && fd >= 0 && (zc_seals(fd) & F_SEAL_SHRINK), "a kernel without MFD_NOEXEC_SEAL still gets seals");
    zc_sys_close(fd);
    fake_fail(NULL, 0, 0);
    is(zc_memfd_new("test", UINT64_MAX, ZC_MEMFD_PLAIN), -EFBIG, "a size that no file has is refused");
}

static void foreign(void) {
    int plain = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    is(ftruncate(plain, PAGE), 0, "an unsealed memfd");
    is(zc_check_foreign(plain, PAGE, ZC_CHECK_SEALED), -EPERM, "is refused where seals are asked for");
    is(fcntl(plain, F_ADD_SEALS, F_SEAL_SHRINK), 0, "sealed against shrinking only");
    is(zc_check_foreign(plain, PAGE, ZC_CHECK_SEALED), -EPERM, "it is still refused");
    is(fcntl(plain, F_ADD_SEALS, F_SEAL_GROW), 0, "sealed against both");
    is(zc_check_foreign(plain, PAGE, ZC_CHECK_SEALED), 0, "it is taken");
    is(zc_check_foreign(plain, PAGE + 1, ZC_CHECK_SEALED), -EOVERFLOW, "but not as more than it is");
    is(zc_check_foreign(plain, UINT64_MAX, ZC_CHECK_SEALED), -EOVERFLOW, "however much more");
    is(zc_check_foreign(plain, PAGE, ZC_CHECK_DMABUF), -ENOTTY, "nor as a dma-buf");
    is(zc_check_foreign(plain, PAGE, 0), -EMEDIUMTYPE, "nor as something that cannot be checked");
    close(plain);
    is(zc_check_foreign(plain, PAGE, ZC_CHECK_SEALED), -EPERM, "a closed descriptor is refused");
    is(zc_check_foreign(-1, PAGE, ZC_CHECK_DMABUF), -ENOTTY, "and none at all");
    int pipes[2], tree = open("/dev/zero", O_RDWR | O_CLOEXEC);
    ok(pipe(pipes) == 0 && zc_check_foreign(pipes[1], 1, ZC_CHECK_SEALED) == -EPERM &&
           zc_check_foreign(tree, 1, ZC_CHECK_SEALED) == -EPERM && zc_check_foreign(tree, 1, ZC_CHECK_DMABUF) == -ENOTTY,
       "pipes and devices are refused");
    close(pipes[0]);
    close(pipes[1]);
    close(tree);
}

static void no_complaint(const char *what) {
    const char *rule = sim_complaint();
    ok(!rule, "simulated %s: number, size and every field as the kernel wants them", what);
    if (rule) tap_comment("broken: %s", rule);
}

static int make_udmabuf(void *context) {
    bytes *b = context;
    int memfd = zc_memfd_new("test", b->count, ZC_MEMFD_PLAIN);
    if (memfd < 0) return memfd;
    int fd = zc_udmabuf_new(b->device, memfd, b->count);
    zc_sys_close(memfd);
    if (fd < 0) return fd;
    int status = zc_check_foreign(fd, b->count, ZC_CHECK_DMABUF);
    zc_sys_close(fd);
    return status;
}

static int make_heap(void *context) {
    bytes *b = context;
    int fd = zc_dmaheap_new(b->device, b->count);
    if (fd < 0) return fd;
    int status = zc_check_foreign(fd, b->count, ZC_CHECK_DMABUF);
    zc_sys_close(fd);
    return status;
}

static int make_dumb(void *context) {
    bytes *b = context;
    uint64_t got = 0;
    int fd = zc_drm_dumb_new(b->device, b->count, &got);
    if (fd < 0) return fd;
    int status = got >= b->count && got == size_of(fd) ? zc_drm_same_object(b->device, fd) : 0;
    zc_sys_close(fd);
    return status < 0 ? status : status == 1 ? 0 : 1;
}

static void simulated_dmabufs(void) {
    int device = sim_udmabuf();
    fake_sweep("simulated udmabuf", make_udmabuf, &(bytes){3 * PAGE, device}, 0);
    no_complaint("udmabuf");
    zc_sys_close(device);

    device = sim_heap();
    fake_sweep("simulated dma-heap", make_heap, &(bytes){5 * PAGE + 1, device}, 0);
    no_complaint("dma-heap");
    zc_sys_close(device);

    int fd = memfd_create("test", MFD_CLOEXEC), begun = sim_begun(), ended = sim_ended();
    sim_dmabuf(fd);
    sim_break(SIM_BUSY);
    ok(zc_sync(fd, ZC_SYNC_WRITE) == 0 && sim_begun() == begun + 1, "simulated SYNC: EAGAIN is asked again");
    ok(zc_sync(fd, ZC_SYNC_WRITE | ZC_SYNC_END) == 0 && sim_ended() == ended + 1, "simulated SYNC: and ended once");
    fake_device(fd, NULL);
    close(fd);
    no_complaint("dma-buf");
}

static void simulated_card(void) {
    int card = sim_card();
    zc_drm_name name;
    uint64_t got = 0;
    memset(&name, 0xff, sizeof name);
    is(zc_drm_version(card, &name), 0, "simulated card: its version");
    ok(name.major == 1 && name.minor == 2 && name.patch == 3 && strlen(name.driver) == sizeof name.driver - 1,
       "simulated card: a name that is too long is cut and ends with NUL");
    fake_fail("ioctl", 1, EACCES);
    is(zc_drm_version(card, &name), -EACCES, "simulated card: a refusal is told");
    fake_fail(NULL, 0, 0);
    fake_sweep("simulated dumb buffer, exported twice", make_dumb, &(bytes){5 * PAGE + 1, card}, 0);
    no_complaint("DRM card");

    fake_ledger before = fake_balance();
    is(zc_drm_dumb_new(card, 0, &got), -EINVAL, "simulated card: no dumb buffer of nothing");
    is(zc_drm_dumb_new(card, UINT64_MAX, &got), -EINVAL, "simulated card: nor of everything");
    is(zc_drm_dumb_new(card, (UINT64_C(1) << 44) + 1, &got), -EINVAL, "simulated card: nor of more lines than 32 bits");
    sim_break(SIM_SMALLER);
    is(zc_drm_dumb_new(card, PAGE * 4, &got), -EOVERFLOW, "simulated card: a smaller one is given back");
    sim_break(SIM_SOUND);
    int fd = zc_drm_dumb_new(card, PAGE, &got);
    sim_break(SIM_OTHER_OBJECT);
    is(zc_drm_same_object(card, fd), 0, "simulated card: another object is seen as another");
    sim_break(SIM_SOUND);
    int other = zc_memfd_new("test", PAGE, ZC_MEMFD_PLAIN);
    is(zc_drm_same_object(card, fd), 1, "simulated card: its own object is seen as such");
    is(zc_drm_same_object(card, other), 0, "simulated card: an import from elsewhere is not its own");
    zc_sys_close(other);
    zc_sys_close(fd);
    is(zc_drm_same_object(card, fd), -EBADF, "simulated card: a closed descriptor is refused");
    sim_complaint(); /* of the closed descriptor, which was ours */
    fake_ledger after = fake_balance();
    ok(fake_same(&before, &after), "simulated card: no handle and no descriptor is left");
    zc_sys_close(card);
}

int main(void) {
    mappings();
    huge_pages();
    memfds();
    foreign();
    simulated_dmabufs();
    simulated_card();
    return tap_done();
}
