#include "fake_devices.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"
#include "fake_drivers.h"
#include "fields.h"
#include "sys.h"

/* What the simulated kernel calls its object behind a handle: any other word would be followed to nowhere. */
#define OBJECT UINT64_C(0xffffff8000000000)
enum { CACHEABLE = 2, SRAM = 0x100, SRAM_BYTES = 8192 };

static struct {
    uint64_t flags, created;
    sim_synced synced;
} sim = {.synced = {-1, 0, 0}};

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
    if (object <= OBJECT || object - OBJECT > UINT32_MAX) return sim_refuse(EFAULT, "MEM_SYNC: obj_addr as given");
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

/* CREATE_BO 0xc0206443, 32 bytes: flags@0 (0), vaddr@8 (0), size@16, type@24 (1 SHARE), handle@28. */
static int amdxdna_create(void *argument) {
    if (u64(argument, 0) || u64(argument, 8)) return sim_refuse(EINVAL, "CREATE_BO: no flags, no table");
    if (u32(argument, 24) != 1 || u32(argument, 28)) return sim_refuse(EINVAL, "CREATE_BO: of the type SHARE");
    if (!u64(argument, 16)) return -EINVAL;
    put32(argument, 28, sim_object(u64(argument, 16)));
    return 0;
}

/* SYNC_BO 0xc0186445, 24 bytes: handle@0, direction@4 (0 to the device, 1 from it), offset@8, size@16. */
static int on_amdxdna(int fd, unsigned long request, void *argument) {
    (void)fd;
    if (request == 0xc0206443) return amdxdna_create(argument);
    if (request != 0xc0186445) return sim_gem(request, argument);
    if (u32(argument, 4) > 1) return sim_refuse(EINVAL, "SYNC_BO: a direction");
    return synced(u32(argument, 4) == 0, u32(argument, 0), u64(argument, 8), u64(argument, 16));
}
int sim_amdxdna(void) { return device(on_amdxdna); }

/* GEM_CREATE 0xc0206440, 32 bytes: bo_size@0, alignment@8, domains@16, domain_flags@24; out handle@0. */
static int on_amdgpu(int fd, unsigned long request, void *argument) {
    (void)fd;
    if (request != 0xc0206440) return sim_gem(request, argument);
    if (u64(argument, 8)) return sim_refuse(EINVAL, "GEM_CREATE: the driver's own alignment");
    if (u64(argument, 16) != sim.flags >> 32 || u64(argument, 24) != (uint32_t)sim.flags)
        return sim_refuse(EINVAL, "GEM_CREATE: domain and flags");
    if (!u64(argument, 0)) return -EINVAL;
    put64(argument, 0, sim_object(u64(argument, 0)));
    return 0;
}
int sim_amdgpu(void) { return device(on_amdgpu); }

/* CREATE_BO 0xc0186440, 24 bytes: size@0 (32 bits), handle@4, dma_address@8, offset@16 out. */
static int rocket_create(void *argument) {
    if (u32(argument, 4) || u64(argument, 8) || u64(argument, 16)) return sim_refuse(EINVAL, "CREATE_BO: all else 0");
    if (!u32(argument, 0)) return -EINVAL;
    put32(argument, 4, sim_object(u32(argument, 0)));
    put64(argument, 8, 0xfff00000);
    put64(argument, 16, UINT64_C(1) << 32);
    return 0;
}

/* PREP_BO 0x40106442, 16 bytes: handle@0, reserved@4, timeout_ns@8, absolute; FINI_BO 0x40086443, 8 bytes. */
static int rocket_sync(const void *argument, int direction) {
    uint64_t until = direction ? 0 : u64(argument, 8), now = zc_sys_now();
    unsigned long size = 0;
    if (u32(argument, 4)) return sim_refuse(EINVAL, "PREP_BO, FINI_BO: reserved is 0");
    if (!direction && (until < now || until - now > UINT64_C(60000000000)))
        return sim_refuse(ETIMEDOUT, "PREP_BO: a moment to come, and not for ever");
    return sim_holds(u32(argument, 0), &size) ? synced(direction, u32(argument, 0), 0, size)
                                              : sim_refuse(ENOENT, "PREP_BO, FINI_BO: an open handle");
}

static int on_rocket(int fd, unsigned long request, void *argument) {
    (void)fd;
    switch (request) {
    case 0xc0186440: return rocket_create(argument);
    case 0x40106442: return rocket_sync(argument, 0);
    case 0x40086443: return rocket_sync(argument, 1);
    default: return sim_gem(request, argument);
    }
}
int sim_rocket(void) { return device(on_rocket); }
