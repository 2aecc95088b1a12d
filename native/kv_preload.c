/* Preloaded (LD_PRELOAD) into an engine: its one KV buffer becomes a mapping of a descriptor that it has inherited.
 *
 * ZCOPY_KV_FD is the descriptor, ZCOPY_KV_BYTES the exact size of the allocation that it answers. ggml asks for a CPU
 * buffer by posix_memalign and gives it back by free. Everything else goes to the C library untouched; without both
 * variables, everything does. Whether an engine took the bait is seen in its /proc/PID/maps, not told from here. */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

static int descriptor = -1;
static size_t wanted;
static void *_Atomic given; /* where the mapping lies, NULL while nobody has it */
static int (*real_memalign)(void **, size_t, size_t);
static void (*real_free)(void *);

/* The C library's own, under the name by which it can be had before dlsym works. */
extern void __libc_free(void *) __attribute__((weak));

static unsigned long long number(const char *name) {
    const char *text = getenv(name);
    char *end = NULL;
    errno = 0;
    unsigned long long value = text && *text >= '0' && *text <= '9' ? strtoull(text, &end, 10) : 0;
    return end && !*end && !errno ? value : 0;
}

__attribute__((constructor)) static void set_up(void) {
    *(void **)&real_memalign = dlsym(RTLD_NEXT, "posix_memalign");
    *(void **)&real_free = dlsym(RTLD_NEXT, "free");
    unsigned long long fd = number("ZCOPY_KV_FD");
    if (fd < 3 || fd > INT_MAX) return;
    descriptor = (int)fd;
    wanted = (size_t)number("ZCOPY_KV_BYTES");
}

static void *take(void) {
    void *at = mmap(NULL, wanted, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    void *nobody = NULL;
    if (at == MAP_FAILED) return NULL;
    if (atomic_compare_exchange_strong(&given, &nobody, at)) return at;
    munmap(at, wanted);
    return NULL;
}

int posix_memalign(void **out, size_t alignment, size_t bytes) {
    int aligned = alignment <= 4096 && !(alignment & (alignment - 1)); /* as every mapping is */
    void *at = wanted && bytes == wanted && aligned ? take() : NULL;
    if (at) {
        *out = at;
        return 0;
    }
    return real_memalign ? real_memalign(out, alignment, bytes) : ENOMEM;
}

void free(void *at) {
    void *ours = at;
    if (at && at == atomic_load_explicit(&given, memory_order_relaxed) &&
        atomic_compare_exchange_strong(&given, &ours, NULL)) {
        munmap(at, wanted);
        return;
    }
    if (real_free) real_free(at);
    else if (__libc_free) __libc_free(at);
}
