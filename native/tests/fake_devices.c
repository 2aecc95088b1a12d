#include "fake_devices.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"
#include "fake_drivers.h"

/* What the simulated kernel calls its object behind a handle: any other word would be followed to nowhere. */
#define OBJECT UINT64_C(0xffffff8000000000)
enum { CACHEABLE = 2, SRAM = 0x100, SRAM_BYTES = 8192 };

static struct {
    uint64_t flags, created;
    sim_synced synced;
} sim = {.synced = {-1, 0, 0}};

static uint32_t u32(const void *from, unsigned at) {
    uint32_t value;
    memcpy(&value, (const char *)from + at, 4);
    return value;
}
static uint64_t u64(const void *from, unsigned at) {
    uint64_t value;
    memcpy(&value, (const char *)from + at, 8);
    return value;
}
static void put32(void *to, unsigned at, uint32_t value) { memcpy((char *)to + at, &value, 4); }
static void put64(void *to, unsigned at, uint64_t value) { memcpy((char *)to + at, &value, 8); }

void sim_expect(uint64_t flags) { sim.flags = flags; }
sim_synced sim_last_sync(void) {
    sim_synced last = sim.synced;
    sim.synced = (sim_synced){-1, 0, 0};
    return last;
}

static int device(fake_driver driver) {
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (fd < 0) abort();
    fake_device(fd, driver);
    return fd;
}

/* A range of a live handle, remembered. */
static int synced(int direction, uint32_t handle, uint64_t offset, uint64_t bytes) {
    unsigned long size = 0;
    if (!sim_holds(handle, &size)) return sim_refuse(ENOENT, "sync: an open handle");
    if (offset > size || bytes > size - offset) return sim_refuse(EINVAL, "sync: inside the buffer");
    sim.synced = (sim_synced){direction, offset, bytes};
    return 0;
}

/* MEM_CREATE 0xc0306442, 48 bytes: handle@0 (0: a new one), flags@4, size@8, obj_addr@16, dma_addr@24, sram_size@32,
 * iommu_domain_id@40, core_mask@44. */
static int rknpu_create(void *argument) {
    if (u32(argument, 0)) return sim_refuse(EINVAL, "MEM_CREATE: a new handle");
    if (u32(argument, 4) != sim.flags) return sim_refuse(EINVAL, "MEM_CREATE: the flags");
    if (!u64(argument, 8)) return -EINVAL;
    if (u64(argument, 32) || u64(argument, 40)) return sim_refuse(EINVAL, "MEM_CREATE: the rest is 0");
    uint32_t handle = sim_object(u64(argument, 8));
    sim.created = u32(argument, 4);
    put32(argument, 0, handle);
    put64(argument, 16, OBJECT + handle);
    put64(argument, 24, 0xfff00000);
    put64(argument, 32, sim.created & SRAM ? SRAM_BYTES : 0);
    return 0;
}

/* MEM_SYNC 0xc0206445, 32 bytes: flags@0 (1 to the device, 2 from it), reserved@4, obj_addr@8, offset@16, size@24. */
static int rknpu_sync(const void *argument) {
    uint32_t flags = u32(argument, 0);
    uint64_t object = u64(argument, 8);
    if (flags != 1 && flags != 2) return sim_refuse(EINVAL, "MEM_SYNC: one direction");
    if (u32(argument, 4)) return sim_refuse(EINVAL, "MEM_SYNC: reserved is 0");
    if (object <= OBJECT || object - OBJECT > UINT32_MAX) return sim_refuse(EFAULT, "MEM_SYNC: obj_addr as it was given");
    if (!(sim.created & CACHEABLE)) return -EINVAL;
    return synced(flags == 1, (uint32_t)(object - OBJECT), u64(argument, 16), u64(argument, 24));
}

/* ACTION 0xc0086440, 8 bytes: flags@0, value@4; 1 the driver's version, 23 the bytes of free SRAM. */
static int rknpu_action(void *argument) {
    uint32_t action = u32(argument, 0);
    if (action != 1 && action != 23) return sim_refuse(EINVAL, "ACTION: only what asks");
    put32(argument, 4, action == 1 ? 908 : 0xc0000000);
    return 0;
}

static int on_rknpu(int fd, unsigned long request, void *argument) {
    (void)fd;
    switch (request) {
    case 0xc0306442: return rknpu_create(argument);
    case 0xc0206445: return rknpu_sync(argument);
    case 0xc0086440: return rknpu_action(argument);
    default: return sim_gem(request, argument);
    }
}
int sim_rknpu(void) { return device(on_rknpu); }
