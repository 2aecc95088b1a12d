/* Simulated accelerators: rknpu, amdxdna, amdgpu and rocket. Like fake_drivers.h, by numbers and offsets of the
 * drivers' headers, not by the structures of native/; GEM and PRIME are fake_drivers'. */
#ifndef ZC_FAKE_DEVICES_H
#define ZC_FAKE_DEVICES_H

#include <stdint.h>

/* Each gives a descriptor of a simulated device, which the caller closes. */
int sim_rknpu(void);
int sim_amdxdna(void);
int sim_amdgpu(void);
int sim_rocket(void);

/* The flags that creation must come with; amdgpu's domain above bit 32. */
void sim_expect(uint64_t flags);
/* What a synchronisation named last; direction -1: none came. */
typedef struct sim_synced {
    int direction;
    uint64_t offset, bytes;
} sim_synced;
sim_synced sim_last_sync(void);

#endif
