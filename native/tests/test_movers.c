/* Every mover at every alignment and many lengths, between fences; threads; choosing one by name. */
#include "fill.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tap.h"

enum { LINE = 64, MOST = 70 * LINE, FENCE = 0xA5 };

static int constant(const zc_mover *m) { return !strcmp(m->method, "memset"); }

static int same(const zc_mover *m, const uint8_t *to, const uint8_t *from, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        if (to[i] != (constant(m) ? ZC_MEMSET_BYTE : from[i])) return 0;
    return 1;
}

/* Two lines of fence on either side must stay as they are. */
static int moves(const zc_mover *m, uint8_t *room, const uint8_t *from, size_t skew, size_t bytes) {
    uint8_t *to = room + 2 * LINE + skew;
    memset(room, FENCE, MOST + 6 * LINE);
    m->move(to, from, bytes);
    m->settle();
    for (size_t i = 0; i < 2 * LINE; i++)
        if (to[bytes + i] != FENCE || to[-1 - (ptrdiff_t)i] != FENCE) return 0;
    return same(m, to, from, bytes);
}

static void one_mover(const zc_mover *m, const uint8_t *from) {
    uint8_t *room = aligned_alloc(LINE, MOST + 6 * LINE);
    uint64_t random = 71;
    int good = room != NULL;
    for (size_t skew = 0; good && skew < LINE; skew++)
        for (size_t bytes = 0; good && bytes < 400; bytes += 1 + skew % 3)
            good = moves(m, room, from + tap_below(&random, LINE), skew, bytes);
    ok(good, "%s/%s: lengths 0 to 399 at every alignment", m->method, m->isa);
    for (int i = 0; good && i < 300; i++)
        good = moves(m, room, from + tap_below(&random, LINE), tap_below(&random, LINE), tap_below(&random, MOST));
    ok(good, "%s/%s: lengths up to %d", m->method, m->isa, MOST);
    free(room);
}

/* Source and target need not be alike: a load that wants an alignment of its own is caught here. */
static void any_source(const zc_mover *m, const uint8_t *from) {
    uint8_t *room = aligned_alloc(LINE, MOST + 6 * LINE);
    int good = room != NULL;
    for (size_t skew = 0; good && skew < LINE; skew++)
        for (size_t other = 0; good && other < LINE; other++)
            good = moves(m, room, from + other, skew, 3 * LINE + (7 * skew + 5 * other) % (3 * LINE));
    ok(good, "%s/%s: every alignment of the source with every one of the target", m->method, m->isa);
    free(room);
}

/* Every byte once, whatever the number of threads and however ragged their slices. */
static void threaded(const zc_mover *m, const uint8_t *from) {
    const uint64_t sizes[] = {1, 4095, 4096, 4097, 10 * 4096 + 17, 64 * 4096};
    uint8_t *to = malloc(65 * 4096);
    int good = to != NULL;
    for (size_t s = 0; good && s < sizeof sizes / sizeof *sizes; s++)
        for (uint32_t threads = 1; good && threads <= 5; threads++) {
            uint64_t ns = 0;
            memset(to, FENCE, 65 * 4096);
            zc_fill_job job = {m, to, from, sizes[s], threads, 1 + threads % 2, NULL};
            good = zc_fill(&job, &ns) == 0 && same(m, to, from, sizes[s]) && to[sizes[s]] == FENCE;
        }
    ok(good, "%s/%s: one to five threads move every byte and no other", m->method, m->isa);
    free(to);
}

static void refused(const uint8_t *from) {
    uint8_t to[64] = {0};
    uint64_t ns = 0;
    zc_fill_job job = {zc_mover_at(0), to, from, 64, 0, 1, NULL};
    is(zc_fill(&job, &ns), -EINVAL, "no thread at all is refused");
    job.threads = ZC_MOST_THREADS + 1;
    is(zc_fill(&job, &ns), -EINVAL, "too many are");
    job.threads = 1;
    job.repeat = 0;
    is(zc_fill(&job, &ns), -EINVAL, "and no repetition at all");
    job.repeat = 1;
    const int32_t nowhere[2] = {0, 1023};
    job.threads = 2;
    job.cpus = nowhere;
    is(zc_fill(&job, &ns), -EINVAL, "a CPU that there is not is told");
    ok(to[0] == 0, "and then nothing was moved");
    const int32_t here[1] = {0};
    job = (zc_fill_job){zc_mover_at(0), to, from, 64, 1, 1, here};
    is(zc_fill(&job, &ns), 0, "pinned to a CPU that there is");
    ok(!memcmp(to, from, 64), "it is moved");
}

static void other_work(const uint8_t *from) {
    uint64_t ns = 0, faults = 99, sum = 0, expected = 0;
    uint8_t *at = calloc(16, 4096);
    zc_touch(at, 16 * 4096, 4096, &ns, &faults);
    int good = 1;
    for (size_t i = 0; i < 16 * 4096; i++) good = good && at[i] == (i % 4096 == 0);
    ok(good, "touching writes one byte a page"); /* its faults: tests/native/test_fill.py, without a sanitizer's own */
    for (size_t i = 0; i < 8192 / 64; i++)
        for (size_t word = 0; word < 4; word++) {
            uint64_t a, b;
            memcpy(&a, from + i * 64 + word * 8, 8);
            memcpy(&b, from + i * 64 + word * 8 + 32, 8);
            expected += a ^ b;
        }
    zc_read_through(from, 8192, &sum);
    ok(sum == expected, "reading through reads every word");
    free(at);
}

int main(void) {
    uint8_t *from = aligned_alloc(LINE, 66 * 4096);
    uint64_t random = 61;
    if (!from) return 2;
    for (size_t i = 0; i < 66 * 4096; i++) from[i] = (uint8_t)tap_random(&random);
    const zc_mover *m;
    for (unsigned i = 0; (m = zc_mover_at(i)); i++) {
        one_mover(m, from);
        any_source(m, from);
        threaded(m, from);
        ok(zc_mover_find(m->method, m->isa) == m, "%s/%s is found by its name", m->method, m->isa);
    }
    ok(zc_mover_find("memcpy", NULL) && zc_mover_find("memset", ""), "memcpy and memset are always there");
    ok(!zc_mover_find("nt", "avx9000") && !zc_mover_find("mem", NULL), "an unknown one is none");
#if defined(__aarch64__)
    ok(zc_mover_find("nt", "neon") && zc_mover_find("nt", NULL) == zc_mover_find("nt", "neon"), "nt/neon is there");
    ok(!zc_mover_find("movsb", NULL) && !zc_mover_find("nt", "sse2"), "and nothing of x86");
#elif defined(__x86_64__)
    ok(zc_mover_find("nt", "sse2") && zc_mover_find("movsb", "erms"), "nt/sse2 and movsb/erms are there");
    ok(!zc_mover_find("nt", "neon"), "and nothing of ARM");
#endif
    refused(from);
    other_work(from);
    free(from);
    return tap_done();
}
