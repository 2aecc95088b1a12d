/* Rows and guards against brute force: what is written, what must not be, and every single wrong byte found. */
#include "rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake.h"
#include "layouts.h"
#include "tap.h"

enum { GUARD = 0x5eed, NONCE = 77 };

static uint8_t guard_of(uint64_t at) {
    return (uint8_t)((GUARD + (at / 8 + 1) * ZC_STEP) >> 8 * (at % 8));
}

/* Memory of exactly `bytes` at an address that is `skew` off an aligned one: whatever lies outside is the sanitizer's. */
typedef struct region {
    uint8_t *whole, *at;
} region;
static region region_of(uint64_t bytes, uint32_t skew) {
    region r = {malloc(bytes + skew), NULL};
    if (!r.whole) abort();
    r.at = r.whole + skew;
    return r;
}

static int as_defined(const uint8_t *at, const zc_layout *layout, const owner *of) {
    for (uint64_t i = 0; i < layout->region_bytes; i++) {
        uint8_t expected = of[i].token < 0 ? guard_of(i) : pattern_of(layout, &of[i], NONCE);
        if (at[i] == expected) continue;
        tap_comment("byte %llu of %llu", (unsigned long long)i, (unsigned long long)layout->region_bytes);
        return 0;
    }
    return 1;
}

static int one_layout(const zc_layout *layout, const owner *of, const zc_kernel *kernel, uint32_t skew) {
    region r = region_of(layout->region_bytes, skew);
    zc_difference rows, guards;
    int good = zc_guard_fill(r.at, layout, GUARD, kernel) == 0 && zc_rows_write(r.at, layout, NONCE, kernel) == 0;
    good = good && as_defined(r.at, layout, of);
    good = good && zc_rows_check(r.at, layout, NONCE, kernel, &rows) == 0 && rows.kind == 0 && !rows.wrong_extents;
    good = good && zc_guard_check(r.at, layout, GUARD, -1, kernel, &guards) == 0 && guards.kind == 0;
    good = good && zc_rows_preread(r.at, layout) == 0;
    free(r.whole);
    return good;
}

static void every_kernel(const char *what, const shape *s, int rounds) {
    uint64_t random = 21;
    made m;
    int good = 1;
    for (int i = 0; good && i < rounds; i++) {
        make_layout(&m, s, &random);
        owner *of = owners_of(&m.layout);
        good = zc_layout_check(&m.layout) == 0;
        const zc_kernel *kernel;
        for (unsigned k = 0; good && (kernel = zc_kernel_at(k)); k++)
            good = one_layout(&m.layout, of, kernel, tap_below(&random, 8));
        free(of);
    }
    ok(good, "%s: %d layouts, every kernel writes each byte as defined and no other", what, rounds);
}

/* The report of a wrong byte at `at`, against brute force. */
static int named(const zc_difference *d, const zc_layout *layout, const owner *o, uint64_t at, uint32_t kind) {
    if (d->kind != kind || d->at != at || d->wrong_extents != 1) return 0;
    if (o->tensor < 0) return 1; /* between a tensor's rows: named by the row before it, or not at all */
    const zc_tensor *t = &layout->tensors[o->tensor];
    return d->inside && d->layer == t->layer && d->role == t->role && d->cell == o->cell && d->byte == o->byte;
}

static int corruption(uint8_t *at, const zc_layout *layout, const owner *of, const zc_kernel *kernel, uint64_t i) {
    zc_difference rows, guards;
    int owned = of[i].token >= 0;
    at[i] ^= (uint8_t)(1 + i % 255);
    zc_rows_check(at, layout, NONCE, kernel, &rows);
    zc_guard_check(at, layout, GUARD, -1, kernel, &guards);
    at[i] ^= (uint8_t)(1 + i % 255);
    const zc_difference *seen = owned ? &rows : &guards, *other = owned ? &guards : &rows;
    int good = other->kind == 0 && named(seen, layout, &of[i], i, owned ? 1 : 2);
    if (!good) tap_comment("byte %llu, owned %d: kind %u at %llu", (unsigned long long)i, owned, seen->kind,
                           (unsigned long long)seen->at);
    return good;
}

static void every_byte(const char *what, const shape *s, int rounds) {
    uint64_t random = 31, bytes = 0;
    int good = 1;
    for (int n = 0; good && n < rounds; n++) {
        made m;
        make_layout(&m, s, &random);
        owner *of = owners_of(&m.layout);
        const zc_kernel *kernel = zc_kernel_at((unsigned)n % 2);
        if (!kernel) kernel = zc_kernel_at(0);
        region r = region_of(m.layout.region_bytes, 0);
        zc_guard_fill(r.at, &m.layout, GUARD, kernel);
        zc_rows_write(r.at, &m.layout, NONCE, kernel);
        for (uint64_t i = 0; good && i < m.layout.region_bytes; i++) good = corruption(r.at, &m.layout, of, kernel, i);
        bytes += m.layout.region_bytes;
        free(r.whole);
        free(of);
    }
    ok(good, "%s: each of %llu bytes, corrupted alone, is found at its layer, role, cell and byte", what,
       (unsigned long long)bytes);
}

/* What the injected faults do must be seen: another nonce, layer, role, token or a shifted row gives other bytes. */
static void bases_differ(void) {
    uint64_t base = zc_row_base(1, 2, 0, 3);
    ok(base != zc_row_base(2, 2, 0, 3) && base != zc_row_base(1, 3, 0, 3) && base != zc_row_base(1, 2, 1, 3) &&
           base != zc_row_base(1, 2, 0, 4) && base == zc_row_base(1, 2, 0, 3),
       "nonce, layer, role and token each change the pattern");
}

static void zero_guard(void) {
    enum { PAGE = 4096, PAGES = 8 };
    zc_tensor tensor = {.offset = 2 * PAGE, .cell_stride = 64, .row_bytes = 64};
    zc_run run = {0, 4};
    zc_layout layout = {PAGE * PAGES, &tensor, &run, 1, PAGE / 64, 1};
    const zc_kernel *kernel = zc_kernel_find(NULL);
    zc_difference d;
    int fd = memfd_create("rows", MFD_CLOEXEC);
    if (!ok(fd >= 0 && ftruncate(fd, PAGE * PAGES) == 0, "a fresh memfd")) return;
    uint8_t *at = mmap(NULL, PAGE * PAGES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    zc_rows_write(at, &layout, NONCE, kernel);
    ok(zc_guard_check(at, &layout, 0, fd, kernel, &d) == 0 && d.kind == 0, "its holes count as zero");
    is(lseek(fd, 0, SEEK_DATA), 2 * PAGE, "and are still holes after the check");
    at[7 * PAGE - 1] = 1;
    ok(zc_guard_check(at, &layout, 0, fd, kernel, &d) == 0 && d.kind == 2 && d.at == 7 * PAGE - 1,
       "a byte written far behind the rows is found");
    at[2 * PAGE + 256] = 1;
    ok(zc_guard_check(at, &layout, 0, fd, kernel, &d) == 0 && d.at == 2 * PAGE + 256 && d.cell == 4 && d.inside &&
           d.wrong_extents == 2,
       "the row after the last is named");
    zc_guard_fill(at, &layout, 0, kernel);
    ok(zc_guard_check(at, &layout, 0, -1, kernel, &d) == 0 && d.kind == 0, "filling with zero puts it right");
    zc_rows_check(at, &layout, NONCE, kernel, &d);
    is(d.kind, 0, "and leaves the rows alone");
    fake_fail("lseek", 1, EIO);
    is(zc_guard_check(at, &layout, 0, fd, kernel, &d), -EIO, "a failing lseek is not a clean guard");
    fake_fail("lseek", 2, EIO);
    is(zc_guard_check(at, &layout, 0, fd, kernel, &d), -EIO, "nor is its second");
    fake_fail(NULL, 0, 0);
    munmap(at, PAGE * PAGES);
    close(fd);
}

int main(void) {
    bases_differ();
    every_kernel("dense", &(shape){40, 90, 0, 0}, 60);
    every_kernel("padded", &(shape){40, 90, 0, 1}, 60);
    every_kernel("transposed V", &(shape){40, 90, 1, 1}, 80);
    every_kernel("rows over several blocks", &(shape){5, 10000, 0, 1}, 15);
    every_byte("padded", &(shape){12, 40, 0, 1}, 12);
    every_byte("transposed V", &(shape){12, 40, 1, 1}, 16);
    every_byte("long rows", &(shape){2, 1200, 0, 0}, 4);
    zero_guard();
    return tap_done();
}
