#include "fake_drivers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake.h"
#include "fields.h"

enum { PAGE = 4096, MOST_OBJECTS = 8, UNKNOWN = ENOTTY };

typedef struct object { /* one GEM handle */
    uint32_t handle; /* 0: unused */
    int backing, imported;
} object;

static struct {
    const char *complaint;
    enum sim_fault fault;
    int begun, ended;
    uint32_t handles;
    object objects[MOST_OBJECTS];
    ino_t latest; /* of the dumb buffer made last: an import of anything else is foreign */
} sim;

void sim_break(enum sim_fault fault) { sim.fault = fault; }
int sim_begun(void) { return sim.begun; }
int sim_ended(void) { return sim.ended; }
const char *sim_complaint(void) {
    const char *first = sim.complaint;
    sim.complaint = NULL;
    return first;
}

/* Remembers the first broken rule. */
static int complain(int error, const char *rule) {
    if (!sim.complaint) sim.complaint = rule;
    return -error;
}

static int file_bytes(int fd, uint64_t *bytes) {
    struct stat st;
    if (fstat(fd, &st)) return -errno;
    *bytes = (uint64_t)st.st_size;
    return 0;
}

static int memory(uint64_t bytes) {
    int fd = memfd_create("simulated", MFD_CLOEXEC);
    if (fd >= 0 && ftruncate(fd, (off_t)bytes)) abort();
    return fd;
}

/* DMA_BUF_IOCTL_SYNC 0x40086200, 8 bytes: flags@0 (READ 1, WRITE 2, END 4). */
static int on_dmabuf(int fd, unsigned long request, void *argument) {
    (void)fd;
    if (request != 0x40086200) return complain(UNKNOWN, "a dma-buf ioctl with another number");
    uint64_t flags = u64(argument, 0);
    if (flags & ~UINT64_C(7) || !(flags & 3)) return complain(EINVAL, "SYNC flags");
    if (sim.fault == SIM_BUSY) {
        sim.fault = SIM_SOUND;
        return -EAGAIN;
    }
    *(flags & 4 ? &sim.ended : &sim.begun) += 1;
    return 0;
}

void sim_dmabuf(int fd) { fake_device(fd, on_dmabuf); }

static int exported(int fd) {
    if (fd < 0) return -EMFILE;
    sim_dmabuf(fd);
    fake_count(1, 0);
    return fd;
}

/* UDMABUF_CREATE 0x40187542, 24 bytes: memfd@0, flags@4 (1 CLOEXEC), offset@8, size@16; the result is the fd. */
static int on_udmabuf(int fd, unsigned long request, void *argument) {
    uint64_t bytes, offset = u64(argument, 8), size = u64(argument, 16);
    (void)fd;
    if (request != 0x40187542) return complain(UNKNOWN, "a udmabuf ioctl with another number");
    if (u32(argument, 4) != 1) return complain(EINVAL, "udmabuf flags: CLOEXEC");
    if (offset % PAGE || size % PAGE || !size) return complain(EINVAL, "udmabuf: whole pages");
    int memfd = (int)u32(argument, 0), seals = fcntl(memfd, F_GET_SEALS);
    if (seals < 0 || file_bytes(memfd, &bytes)) return complain(EBADFD, "udmabuf: a memfd");
    if (!(seals & F_SEAL_SHRINK) || seals & F_SEAL_WRITE) return complain(EINVAL, "udmabuf: sealed against shrinking");
    if (offset > bytes || size > bytes - offset) return complain(EINVAL, "udmabuf: inside the file");
    return exported(fcntl(memfd, F_DUPFD_CLOEXEC, 0));
}

/* DMA_HEAP_IOCTL_ALLOC 0xc0184800, 24 bytes: len@0, fd@8 (0 in), fd_flags@12, heap_flags@16. */
static int on_heap(int fd, unsigned long request, void *argument) {
    (void)fd;
    if (request != 0xc0184800) return complain(UNKNOWN, "a dma-heap ioctl with another number");
    uint64_t len = u64(argument, 0);
    if (!len) return complain(EINVAL, "dma-heap: a length");
    if (u32(argument, 8)) return complain(EINVAL, "dma-heap: fd is 0 on the way in");
    if (u32(argument, 12) != (O_RDWR | O_CLOEXEC)) return complain(EINVAL, "dma-heap: read, write and CLOEXEC");
    if (u64(argument, 16)) return complain(EINVAL, "dma-heap: no heap flags are defined");
    put32(argument, 8, (uint32_t)exported(memory((len + PAGE - 1) / PAGE * PAGE)));
    return 0;
}

static object *find(uint32_t handle) {
    for (int i = 0; i < MOST_OBJECTS; i++)
        if (sim.objects[i].handle == handle) return &sim.objects[i];
    return NULL;
}

static ino_t inode(int fd) {
    struct stat st;
    if (fstat(fd, &st)) abort();
    return st.st_ino;
}

static uint32_t new_handle(int backing, int imported) {
    object *free_one = find(0);
    if (!free_one || backing < 0) abort();
    *free_one = (object){++sim.handles, backing, imported};
    fake_count(0, 1);
    return free_one->handle;
}

/* DRM_IOCTL_MODE_CREATE_DUMB 0xc02064b2, 32 bytes: height@0, width@4, bpp@8, flags@12, handle@16, pitch@20, size@24. */
static int create_dumb(void *argument) {
    uint64_t height = u32(argument, 0), width = u32(argument, 4), bpp = u32(argument, 8);
    if (!height || !width || !bpp) return complain(EINVAL, "dumb buffer: no dimension is 0");
    if (width > 16384) return complain(EINVAL, "dumb buffer: wider than cards allow");
    if (u32(argument, 12)) return complain(EINVAL, "dumb buffer: no flags are defined");
    uint64_t pitch = (width * bpp / 8 + 255) / 256 * 256, size = (pitch * height + PAGE - 1) / PAGE * PAGE;
    if (sim.fault == SIM_SMALLER) size -= PAGE;
    int backing = memory(size);
    sim.latest = inode(backing);
    put32(argument, 16, new_handle(backing, 0));
    put32(argument, 20, (uint32_t)pitch);
    put64(argument, 24, size);
    return 0;
}

/* DRM_IOCTL_GEM_CLOSE 0x40086409, 8 bytes: handle@0, pad@4. */
static int gem_close(const void *argument) {
    object *gone = u32(argument, 0) ? find(u32(argument, 0)) : NULL;
    if (!gone) return complain(EINVAL, "GEM_CLOSE: an open handle, once");
    if (u32(argument, 4)) return complain(EINVAL, "GEM_CLOSE: its padding is 0");
    close(gone->backing);
    *gone = (object){0, -1, 0};
    fake_count(0, -1);
    return 0;
}

/* DRM_IOCTL_PRIME_HANDLE_TO_FD 0xc00c642d and FD_TO_HANDLE 0xc00c642e, 12 bytes: handle@0, flags@4, fd@8. */
static int handle_to_fd(void *argument) {
    object *of = u32(argument, 0) ? find(u32(argument, 0)) : NULL;
    uint64_t bytes = 0;
    if (u32(argument, 4) != (O_RDWR | O_CLOEXEC)) return complain(EINVAL, "PRIME export: read-write and CLOEXEC");
    if (!of) return complain(ENOENT, "PRIME export: an open handle");
    if (file_bytes(of->backing, &bytes)) return -EBADF;
    int fd = sim.fault == SIM_OTHER_OBJECT ? memory(bytes) : fcntl(of->backing, F_DUPFD_CLOEXEC, 0);
    put32(argument, 8, (uint32_t)exported(fd));
    return 0;
}
static int fd_to_handle(void *argument) {
    int backing = fcntl((int)u32(argument, 8), F_DUPFD_CLOEXEC, 0);
    if (backing < 0) return complain(EBADF, "PRIME import: an open descriptor");
    put32(argument, 0, new_handle(backing, inode(backing) != sim.latest));
    return 0;
}

/* DRM_IOCTL_MODE_MAP_DUMB 0xc01064b3, 16 bytes: handle@0, pad@4, offset@8; imports are refused. */
static int map_dumb(void *argument) {
    const object *of = u32(argument, 0) ? find(u32(argument, 0)) : NULL;
    if (!of) return complain(ENOENT, "MAP_DUMB: an open handle");
    if (u32(argument, 4)) return complain(EINVAL, "MAP_DUMB: its padding is 0");
    if (of->imported) return -EINVAL;
    put64(argument, 8, UINT64_C(1) << 32);
    return 0;
}

/* DRM_IOCTL_VERSION 0xc0406400, 64 bytes: major@0, minor@4, patch@8, then length and pointer of name@16, date@32 and
 * desc@48. At most the given length is copied; the real length comes back. */
static int version(void *argument) {
    static const char name[] = "a driver whose name is longer than any buffer for it";
    if ((u64(argument, 32) && !u64(argument, 40)) || (u64(argument, 48) && !u64(argument, 56)))
        return complain(EFAULT, "VERSION: a length without a buffer");
    uint64_t room = u64(argument, 16);
    memcpy((void *)(uintptr_t)u64(argument, 24), name, room < sizeof name - 1 ? room : sizeof name - 1);
    put64(argument, 16, sizeof name - 1);
    for (unsigned i = 0; i < 3; i++) put32(argument, 4 * i, i + 1);
    return 0;
}

unsigned sim_object(unsigned long bytes) { return new_handle(memory((bytes + PAGE - 1) / PAGE * PAGE), 0); }
int sim_holds(unsigned handle, unsigned long *bytes) {
    const object *of = handle ? find(handle) : NULL;
    uint64_t size = 0;
    if (!of || file_bytes(of->backing, &size)) return 0;
    *bytes = size;
    return 1;
}
int sim_refuse(int error, const char *rule) { return complain(error, rule); }
int sim_gem(unsigned long request, void *argument) {
    switch (request) {
    case 0x40086409: return gem_close(argument);
    case 0xc00c642d: return handle_to_fd(argument);
    case 0xc00c642e: return fd_to_handle(argument);
    default: return complain(UNKNOWN, "a device's ioctl with another number");
    }
}

static int on_card(int fd, unsigned long request, void *argument) {
    (void)fd;
    switch (request) {
    case 0xc0406400: return version(argument);
    case 0xc02064b2: return create_dumb(argument);
    case 0xc01064b3: return map_dumb(argument);
    case 0x40086409: return gem_close(argument);
    case 0xc00c642d: return handle_to_fd(argument);
    case 0xc00c642e: return fd_to_handle(argument);
    default: return complain(UNKNOWN, "a DRM ioctl with another number");
    }
}

static int device(fake_driver driver) {
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (fd < 0) abort();
    fake_device(fd, driver);
    return fd;
}
int sim_udmabuf(void) { return device(on_udmabuf); }
int sim_heap(void) { return device(on_heap); }
int sim_card(void) { return device(on_card); }
