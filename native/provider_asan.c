/* What the provider asks of AddressSanitizer; nothing in a build without it.
 *
 * An overrun inside one mapping is invisible to ASan, so the bytes that must stay untouched are poisoned by hand. */
#include "provider.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>

static uint32_t reports;

/* The runtime calls this for every report; with halt_on_error=0 the program then goes on. */
void __asan_on_error(void);
void __asan_on_error(void) { reports++; }

uint32_t zc_asan_reports(void) { return reports; }
int zc_asan_built(void) { return 1; }

static int poison(void *context, uint64_t at, uint64_t bytes) {
    const zc_slot *slot = context;
    __asan_poison_memory_region((char *)slot->mapping.at + at, bytes);
    return 0;
}

int zc_asan_forbid(const zc_slot *slot) {
    zc_layout layout = zc_slot_layout(slot);
    return zc_walk_gaps(&layout, poison, (void *)(uintptr_t)slot);
}

void zc_asan_allow(const zc_slot *slot) { __asan_unpoison_memory_region(slot->mapping.at, slot->mapping.bytes); }

#else
uint32_t zc_asan_reports(void) { return 0; }
int zc_asan_built(void) { return 0; }
int zc_asan_forbid(const zc_slot *slot) { return slot ? 0 : 0; }
void zc_asan_allow(const zc_slot *slot) { (void)slot; }
#endif
