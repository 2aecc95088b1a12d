/* A link-time fake of the kernel and of the allocator: the linker's --wrap puts it between native/ and sys_linux.c.
 *
 * Every call is counted and, unless it is told to fail, forwarded; what is open, mapped and allocated stands in a
 * ledger. Calls that only give something back (close, munmap, unlink, free, GEM_CLOSE) are never made to fail: nothing
 * could be done about it. Descriptors that `fake_device` names are simulated: their ioctls never reach the kernel. */
#ifndef ZC_FAKE_H
#define ZC_FAKE_H

#include <stdint.h>

/* The n-th call from now on returns -error (an allocation: NULL). `call` picks one sort ("readv", "malloc"); NULL
 * means any. n 0 disarms. */
void fake_fail(const char *call, unsigned nth, int error);
int fake_hit(void);          /* whether the armed failure has happened */
const char *fake_name(void); /* the call that it struck */

/* readv and writev move at most this many bytes a call; 0 lifts the limit. */
void fake_short(uint64_t most);

typedef struct fake_ledger {
    int64_t descriptors; /* as they went through zc_sys_* */
    int64_t of_kernel;   /* as /proc/self/fd lists them */
    int64_t mapped;      /* bytes, in whole pages */
    int64_t allocations;
    int64_t handles; /* of simulated DRM cards */
} fake_ledger;
fake_ledger fake_balance(void);
/* Whether both agree; says what differs on a line of TAP comment. */
int fake_same(const fake_ledger *before, const fake_ledger *after);
void fake_count(int descriptors, int handles); /* for simulated drivers */

/* Answers every ioctl of fd until it is closed. Returns 0, a descriptor, or -errno. */
typedef int (*fake_driver)(int fd, unsigned long request, void *argument);
void fake_device(int fd, fake_driver driver);

/* Runs `once` with its first, second, ... call failing by -EIO until a run meets no failure; one test. `once` gives
 * back all that it got and returns its function's status. Each struck run must fail, unless `tolerant`, the last one
 * must succeed, and after each the ledger must be what it was. */
typedef int (*fake_once)(void *context);
void fake_sweep(const char *what, fake_once once, void *context, int tolerant);

#endif
