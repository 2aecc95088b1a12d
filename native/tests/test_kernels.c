/* Every kernel against the pattern's definition, at every alignment and many lengths; choosing one by name. */
#include "kernels.h"

#include <stdlib.h>
#include <string.h>

#include "tap.h"

enum { LINE = 64, MOST = 140 * LINE, FENCE = 0xA5 };

static uint8_t expected(uint64_t base, size_t at) { return (uint8_t)((base + (at / 8 + 1) * ZC_STEP) >> 8 * (at % 8)); }

/* One line of fence on either side must stay as it is. */
static int fills(const zc_kernel *kernel, uint8_t *room, size_t skew, size_t bytes, uint64_t base) {
    uint8_t *at = room + LINE + skew;
    memset(room, FENCE, MOST + 4 * LINE);
    kernel->fill(at, bytes, base);
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != expected(base, i)) return 0;
    for (size_t i = 0; i < LINE; i++)
        if (at[bytes + i] != FENCE || at[-1 - (ptrdiff_t)i] != FENCE) return 0;
    return kernel->check(at, bytes, base) == SIZE_MAX;
}

static int finds(const zc_kernel *kernel, uint8_t *at, size_t bytes, uint64_t base, size_t wrong) {
    kernel->fill(at, bytes, base);
    at[wrong] ^= 0x10;
    if (kernel->check(at, bytes, base) != wrong) return 0;
    memset(at, 0, bytes);
    if (kernel->check_zero(at, bytes) != SIZE_MAX) return 0;
    at[wrong] = 1;
    at[bytes - 1] = 1; /* the first one counts */
    return kernel->check_zero(at, bytes) == wrong;
}

static void one_kernel(const zc_kernel *kernel) {
    uint8_t *room = aligned_alloc(LINE, MOST + 4 * LINE);
    uint64_t random = 51;
    int good = room != NULL;
    for (size_t skew = 0; good && skew < LINE; skew++)
        for (size_t bytes = 0; good && bytes < 300; bytes += 1 + skew % 3)
            good = fills(kernel, room, skew, bytes, tap_random(&random));
    ok(good, "%s: lengths 0 to 299 at every alignment", kernel->name);
    for (int i = 0; good && i < 150; i++)
        good = fills(kernel, room, tap_below(&random, LINE), tap_below(&random, MOST), tap_random(&random));
    ok(good, "%s: lengths up to %d", kernel->name, MOST);
    for (size_t bytes = 1; good && bytes < 200; bytes += 7)
        for (size_t wrong = 0; good && wrong < bytes; wrong++) good = finds(kernel, room + bytes % LINE, bytes, 3, wrong);
    for (size_t wrong = 0; good && wrong < MOST; wrong += 61) good = finds(kernel, room + 1, MOST, 5, wrong);
    ok(good, "%s: finds the first wrong byte and the first that is not zero", kernel->name);
    free(room);
}

/* Against the plain loops and not the definition: what two processes with unlike kernels must agree on. */
static void as_base(const zc_kernel *kernel) {
    const zc_kernel *base = zc_kernel_find("base");
    uint8_t *one = aligned_alloc(LINE, 8 * LINE), *other = aligned_alloc(LINE, 8 * LINE);
    int good = one && other;
    uint64_t random = 53;
    for (size_t skew = 0; good && skew < LINE; skew++)
        for (size_t bytes = 0; good && bytes <= 5 * LINE; bytes++) {
            uint64_t word = tap_random(&random);
            memset(one, FENCE, 8 * LINE);
            memset(other, FENCE, 8 * LINE);
            kernel->fill(one + skew, bytes, word);
            kernel->settle();
            base->fill(other + LINE - 1 - skew, bytes, word);
            good = !memcmp(one + skew, other + LINE - 1 - skew, bytes) &&
                   base->check(one + skew, bytes, word) == SIZE_MAX &&
                   kernel->check(other + LINE - 1 - skew, bytes, word) == SIZE_MAX;
        }
    ok(good, "%s: bit for bit what base writes, lengths 0 to %d at every alignment", kernel->name, 5 * LINE);
    free(one);
    free(other);
}

/* A kernel that the build had lost would be missed by nothing else: the tests go over those that there are. */
static void streaming(void) {
#if defined(__aarch64__)
    ok(zc_kernel_find("neon-nt") == zc_kernel_at(0), "neon-nt is there, and the best");
#elif defined(ZC_HAVE_AVX2)
    if (__builtin_cpu_supports("avx2")) ok(zc_kernel_find("avx2-nt") == zc_kernel_at(0), "avx2-nt is there, and the best");
#endif
}

static void naming(void) {
    ok(zc_kernel_at(0) && zc_kernel_find(NULL) == zc_kernel_at(0), "no name: the best");
    ok(zc_kernel_find("") == zc_kernel_at(0), "an empty name: the best");
    ok(!zc_kernel_find("avx9000") && !zc_kernel_find("bas") && !zc_kernel_find("base "), "an unknown name: none");
    ok(zc_kernel_find("base") && !strcmp(zc_kernel_find("base")->name, "base"), "base is always there");
    unsigned count = 0;
    for (const zc_kernel *k; (k = zc_kernel_at(count)); count++)
        ok(zc_kernel_find(k->name) == k, "%s can be forced by its name", k->name);
    ok(!zc_kernel_at(count) && !zc_kernel_at(UINT32_MAX), "past the end there is none");
    ok(count && !strcmp(zc_kernel_at(count - 1)->name, "base"), "the last of %u is base", count);
#if defined(ZC_HAVE_AVX2)
    if (!__builtin_cpu_supports("avx2")) {
        ok(!zc_kernel_find("avx2"), "what the CPU lacks cannot be forced");
        tap_skip("avx2 and avx2-nt", "this CPU has no AVX2");
    }
#endif
}

int main(void) {
    naming();
    streaming();
    const zc_kernel *kernel;
    for (unsigned k = 0; (kernel = zc_kernel_at(k)); k++) {
        one_kernel(kernel);
        as_base(kernel);
    }
    return tap_done();
}
