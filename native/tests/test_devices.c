/* Buffers of accelerators. None of them is here: the drivers are simulated (fake_devices.c), and the names say so. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "buffers_device.h"
#include "fake.h"
#include "fake_devices.h"
#include "fake_drivers.h"
#include "sys.h"
#include "tap.h"

enum { PAGE = 4096 };

static void no_complaint(const char *what) {
    const char *rule = sim_complaint();
    ok(!rule, "simulated %s: number, size and every field as the driver wants them", what);
    if (rule) tap_comment("broken: %s", rule);
}

typedef int (*maker)(int device, uint64_t bytes, zc_bo *out);
typedef int64_t (*syncer)(int device, const zc_bo *bo, unsigned direction, uint64_t offset, uint64_t bytes);
typedef struct driver {
    int device;
    maker make;
    syncer sync; /* NULL: the driver has none */
} driver;

static void give_back(int device, zc_bo *bo) {
    zc_bo_close(device, bo);
    zc_sys_close(bo->fd);
}

/* Made, synchronised both ways, known by the device, given back. */
static int whole_life(void *context) {
    driver *d = context;
    zc_bo bo;
    int status = d->make(d->device, 3 * PAGE, &bo);
    if (status < 0) return status;
    int64_t took = d->sync ? d->sync(d->device, &bo, ZC_FROM_DEVICE, 0, bo.size) : 0;
    if (took >= 0 && d->sync) took = d->sync(d->device, &bo, ZC_TO_DEVICE, 0, bo.size);
    status = took < 0 ? (int)took : zc_bo_same_object(d->device, bo.fd);
    give_back(d->device, &bo);
    return status < 0 ? status : status == 1 ? 0 : -EBADMSG;
}

static void life(const char *name, driver d) {
    zc_bo bo;
    fake_sweep(name, whole_life, &d, 0);
    no_complaint(name);
    fake_ledger before = fake_balance();
    is(d.make(d.device, 3 * PAGE, &bo), 0, "%s: a buffer", name);
    ok(bo.handle && bo.fd >= 0 && bo.size == 3 * PAGE, "%s: with handle, descriptor and size", name);
    zc_bo_close(d.device, &bo);
    zc_bo_close(d.device, &bo);
    no_complaint("closing twice");
    ok(!bo.handle && !bo.object, "%s: nothing is kept of a closed handle", name);
    if (d.sync) is(d.sync(d.device, &bo, ZC_TO_DEVICE, 0, PAGE), -EINVAL, "%s: which cannot be synchronised", name);
    zc_sys_close(bo.fd);
    fake_fail("ioctl", 2, EMFILE);
    is(d.make(d.device, PAGE, &bo), -EMFILE, "%s: an export that fails is told", name);
    fake_fail(NULL, 0, 0);
    ok(bo.fd == -1 && !bo.handle, "%s: and gives nothing", name);
    fake_ledger after = fake_balance();
    ok(fake_same(&before, &after), "%s: no handle and no descriptor is left", name);
}

/* Both directions of a range, and ranges that would leave the buffer. */
static void ranges(const char *name, driver d) {
    zc_bo bo;
    is(d.make(d.device, 3 * PAGE, &bo), 0, "%s: a buffer", name);
    for (unsigned direction = ZC_FROM_DEVICE; direction <= ZC_TO_DEVICE; direction++) {
        ok(d.sync(d.device, &bo, direction, 64, PAGE) >= 0, "%s: a range is synchronised", name);
        sim_synced last = sim_last_sync();
        ok(last.direction == (int)direction && last.offset == 64 && last.bytes == PAGE, "%s: that one, that way", name);
    }
    is(d.sync(d.device, &bo, ZC_TO_DEVICE, PAGE, 3 * PAGE), -EINVAL, "%s: not beyond the end", name);
    is(d.sync(d.device, &bo, ZC_TO_DEVICE, UINT64_MAX, 2), -EINVAL, "%s: nor around it", name);
    is(sim_last_sync().direction, -1, "%s: and the driver is not asked", name);
    give_back(d.device, &bo);
    no_complaint(name);
}

static uint32_t rknpu_flags;
static int make_rknpu(int device, uint64_t bytes, zc_bo *out) { return zc_rknpu_new(device, bytes, rknpu_flags, out); }

static void rknpu(void) {
    zc_bo bo;
    driver d = {sim_rknpu(), make_rknpu, zc_rknpu_sync};
    sim_expect(rknpu_flags = 0x403);
    life("simulated rknpu, cacheable", d);
    ranges("simulated rknpu, cacheable", d);
    sim_expect(rknpu_flags = 0x503);
    is(make_rknpu(d.device, 2 * PAGE, &bo), 0, "simulated rknpu: in SRAM");
    is((int)bo.sram, 8192, "simulated rknpu: how much of it is the driver's word");
    give_back(d.device, &bo);
    sim_expect(rknpu_flags = 0x405);
    is(make_rknpu(d.device, PAGE, &bo), 0, "simulated rknpu: write-combine");
    is((int)zc_rknpu_sync(d.device, &bo, ZC_TO_DEVICE, 0, PAGE), -EINVAL, "simulated rknpu: has no MEM_SYNC");
    ok(!bo.sram, "simulated rknpu: and lies in no SRAM");
    give_back(d.device, &bo);
    is(make_rknpu(d.device, 0, &bo), -EINVAL, "simulated rknpu: no buffer of nothing");
    is((int)zc_rknpu_ask(d.device, ZC_RKNPU_DRV_VERSION), 908, "simulated rknpu: its version");
    ok(zc_rknpu_ask(d.device, ZC_RKNPU_FREE_SRAM) == 0xc0000000, "simulated rknpu: free SRAM of any size is no error");
    is((int)zc_rknpu_ask(d.device, 6), -EINVAL, "simulated rknpu: it is never told to reset");
    fake_fail("ioctl", 1, EPERM);
    is((int)zc_rknpu_ask(d.device, ZC_RKNPU_DRV_VERSION), -EPERM, "simulated rknpu: a refusal is told");
    fake_fail(NULL, 0, 0);
    no_complaint("rknpu");
    zc_sys_close(d.device);
}

static void amdxdna(void) {
    zc_bo bo;
    driver d = {sim_amdxdna(), zc_amdxdna_new, zc_amdxdna_sync};
    life("simulated amdxdna", d);
    ranges("simulated amdxdna", d);
    is(zc_amdxdna_new(d.device, 0, &bo), -EINVAL, "simulated amdxdna: no buffer of nothing");
    zc_sys_close(d.device);
}

static int make_gtt(int device, uint64_t bytes, zc_bo *out) { return zc_amdgpu_new(device, bytes, 2, 4, out); }

static void amdgpu(void) {
    zc_bo bo;
    driver d = {sim_amdgpu(), make_gtt, NULL};
    sim_expect(UINT64_C(2) << 32 | 4);
    life("simulated amdgpu, GTT", d);
    sim_expect(UINT64_C(4) << 32 | 9);
    is(zc_amdgpu_new(d.device, PAGE, 4, 9, &bo), 0, "simulated amdgpu: another domain, other flags");
    give_back(d.device, &bo);
    is(zc_amdgpu_new(d.device, 0, 4, 9, &bo), -EINVAL, "simulated amdgpu: no buffer of nothing");
    no_complaint("amdgpu");
    zc_sys_close(d.device);
}

static int64_t sync_all(int device, const zc_bo *bo, unsigned direction, uint64_t offset, uint64_t bytes) {
    (void)offset;
    (void)bytes;
    return zc_rocket_sync(device, bo, direction);
}

static void rocket(void) {
    zc_bo bo;
    driver d = {sim_rocket(), zc_rocket_new, sync_all};
    life("simulated rocket", d);
    is(zc_rocket_new(d.device, UINT64_C(1) << 32, &bo), -EINVAL, "simulated rocket: less than 4 GiB");
    is(zc_rocket_new(d.device, (UINT64_C(1) << 32) + PAGE, &bo), -EINVAL, "simulated rocket: a size is never cut off");
    is(zc_rocket_new(d.device, 2 * PAGE, &bo), 0, "simulated rocket: a buffer");
    for (unsigned direction = ZC_FROM_DEVICE; direction <= ZC_TO_DEVICE; direction++) {
        ok(zc_rocket_sync(d.device, &bo, direction) >= 0, "simulated rocket: is synchronised");
        is(sim_last_sync().direction, direction, "simulated rocket: that way");
    }
    give_back(d.device, &bo);
    no_complaint("rocket");
    zc_sys_close(d.device);
}

int main(void) {
    rknpu();
    amdxdna();
    amdgpu();
    rocket();
    return tap_done();
}
