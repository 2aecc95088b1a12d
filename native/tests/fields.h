/* Fields of a driver's argument by their offsets: simulated drivers know no structures of native/. */
#ifndef ZC_FIELDS_H
#define ZC_FIELDS_H

#include <stdint.h>
#include <string.h>

static inline uint32_t u32(const void *from, unsigned at) {
    uint32_t value;
    memcpy(&value, (const char *)from + at, 4);
    return value;
}
static inline uint64_t u64(const void *from, unsigned at) {
    uint64_t value;
    memcpy(&value, (const char *)from + at, 8);
    return value;
}
static inline void put32(void *to, unsigned at, uint32_t value) { memcpy((char *)to + at, &value, 4); }
static inline void put64(void *to, unsigned at, uint64_t value) { memcpy((char *)to + at, &value, 8); }

#endif
