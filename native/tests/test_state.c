/* The sequence-state file: sizes, every byte of a small one, round trips, and files that are not what they should be. */
#include "state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake.h"
#include "fake_drivers.h"
#include "layouts.h"
#include "tap.h"

static void one_size(const char *model, uint32_t layers, uint32_t elements, uint32_t cells, uint64_t expected) {
    zc_layout *layout = make_model(layers, elements, cells, cells);
    is(zc_state_bytes(layout), expected, "%s, f16, %u tokens", model, cells);
    free(layout);
}

/* Files of a llama.cpp server, measured. */
static void sizes(void) {
    one_size("qwen3-4b", 36, 1024, 307, 45274820);
    one_size("qwen3-4b", 36, 1024, 4105, 605373476);
    one_size("qwen3-4b", 36, 1024, 16399, UINT64_C(2418394244));
    one_size("qwen3-30b-a3b", 48, 512, 307, 30185444);
    one_size("qwen3-30b-a3b", 48, 512, 4105, 403604804);
    one_size("qwen3-30b-a3b", 48, 512, 16399, UINT64_C(1612350884));
}

/* One layer, K rows of 2 elements, V rows of 1 (f16), two tokens, sequence 5, from position 3. */
#define HEAD(v_trans)                                                                                       \
    0x71, 0x73, 0x67, 0x67, /* magic */ 4, 0, 0, 0, /* version */ 6, 0, 0, 0,         /* words */           \
        0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0, 2, 0, 0, 0,                               /* payload, tokens */ \
        0, 0, 0, 0, 1, 0, 0, 0,                                                       /* ids */             \
        0, 0, 0, 0,                                                                   /* media */           \
        1, 0, 0, 0, 2, 0, 0, 0,                                                       /* streams, cells */  \
        3, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0,       /* the cells */       \
        v_trans, 0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0,         /* layers, rotations */               \
        1, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 10, 11, 12, 13, 14, 15, 16, 17            /* K */
static const uint8_t plain[] = {HEAD(0), 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 20, 21, 22, 23};
/* The same with V as one channel of two elements: element size 2, channels 1. */
static const uint8_t turned[] = {HEAD(1), 1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 20, 21, 22, 23};
enum { HEAD_BYTES = 84, IDS = 24, IDS_END = 32, CELLS = 44, REGION = 12 };
static const uint8_t region[REGION] = {10, 11, 12, 13, 14, 15, 16, 17, 20, 21, 22, 23};
static const zc_state state = {1, 1, 7, 9, 5, 3, NULL};

typedef struct tiny {
    zc_tensor tensors[2];
    zc_run run;
    zc_layout layout;
} tiny;
static void make_tiny(tiny *t, int transposed) {
    *t = (tiny){.tensors = {{.cell_stride = 4, .row_bytes = 4}, {.offset = 8, .cell_stride = 2, .row_bytes = 2, .role = 1}},
                .run = {0, 2}, .layout = {REGION, t->tensors, &t->run, 2, 2, 1}};
    if (!transposed) return;
    t->tensors[1].element_bytes = 2;
    t->tensors[1].channel_stride = 4;
}

static int file_of(const void *bytes, size_t count) {
    int fd = memfd_create("state", MFD_CLOEXEC);
    if (fd < 0 || (count && write(fd, bytes, count) != (ssize_t)count) || lseek(fd, 0, SEEK_SET)) abort();
    return fd;
}

static void golden(const char *what, int transposed, const uint8_t *bytes, size_t count) {
    tiny t;
    uint8_t got[256] = {0}, back[REGION] = {0};
    int32_t pos[2] = {0};
    make_tiny(&t, transposed);
    int fd = file_of(NULL, 0);
    is(zc_state_bytes(&t.layout), count, "%s: the formula gives its size", what);
    is(zc_state_save(fd, &state, region, &t.layout), count, "%s: saved", what);
    is(pread(fd, got, sizeof got, 0), count, "%s: as long as it says", what);
    ok(!memcmp(got, bytes, count), "%s: every byte as in the format's description", what);
    close(fd);
    fd = file_of(bytes, count);
    is(zc_state_restore(fd, &state, back, &t.layout, pos), count, "%s: restored", what);
    ok(!memcmp(back, region, REGION) && pos[0] == 3 && pos[1] == 4, "%s: with its rows and positions", what);
    close(fd);
}

static int64_t restore_bytes(const uint8_t *bytes, size_t count, int32_t *pos) {
    tiny t;
    uint8_t *back = malloc(REGION); /* of its exact size: the sanitizer sees what is written past it */
    make_tiny(&t, 0);
    int fd = file_of(bytes, count);
    int64_t got = back ? zc_state_restore(fd, &state, back, &t.layout, pos) : -ENOMEM;
    close(fd);
    free(back);
    return got;
}

static void truncated(void) {
    int32_t pos[2];
    size_t count = 0;
    while (count < sizeof plain && restore_bytes(plain, count, pos) == -ENODATA) count++;
    is(count, sizeof plain, "cut off at any byte it is refused");
    uint8_t longer[sizeof plain + 1] = {0};
    memcpy(longer, plain, sizeof plain);
    is(restore_bytes(longer, sizeof longer, pos), -E2BIG, "one byte longer it is refused");
}

/* Token ids and positions are the file's own to say; everything else must be what the geometry asks for. */
static int is_content(size_t at) {
    return (at >= IDS && at < IDS_END) || (at >= CELLS && at < CELLS + 24 && (at - CELLS) % 12 < 4);
}
static int is_row(size_t at) { return (at >= HEAD_BYTES + 12 && at < HEAD_BYTES + 20) || at >= HEAD_BYTES + 32; }

static void flipped(void) {
    int32_t pos[2];
    int refused = 1, told = 1;
    for (size_t at = 0; at < sizeof plain; at++)
        for (int bit = 0; bit < 8 && !is_row(at); bit++) {
            uint8_t bytes[sizeof plain];
            memcpy(bytes, plain, sizeof plain);
            bytes[at] ^= (uint8_t)(1 << bit);
            int64_t got = restore_bytes(bytes, sizeof bytes, pos);
            int good = is_content(at) ? got == sizeof plain : at < 8 ? got == -EILSEQ : got == -ESTALE;
            if (!good) tap_comment("byte %zu bit %d: %lld", at, bit, (long long)got);
            if (is_content(at) && at >= CELLS) told = told && (pos[0] != 3 || pos[1] != 4);
            refused = refused && good;
        }
    ok(refused, "with any bit of its structure flipped it is refused: as another format, or another geometry");
    ok(told, "a flipped bit of a position is told, not hidden");
}

static void other_geometry(void) {
    tiny t;
    uint8_t back[64] = {0};
    int32_t pos[3] = {0};
    make_tiny(&t, 1);
    int fd = file_of(plain, sizeof plain);
    is(zc_state_restore(fd, &state, back, &t.layout, pos), -ESTALE, "V stored plain does not restore as transposed");
    close(fd);
    fd = file_of(turned, sizeof turned);
    make_tiny(&t, 0);
    is(zc_state_restore(fd, &state, back, &t.layout, pos), -ESTALE, "nor the other way round");
    close(fd);
    zc_state other = state;
    other.type_v = 8;
    fd = file_of(plain, sizeof plain);
    is(zc_state_restore(fd, &other, back, &t.layout, pos), -ESTALE, "another type is refused");
    close(fd);
}

/* Saves from one random layout's packed form and restores into the layout; guards must not be touched. */
static int round_trip(const made *m, uint64_t *random) {
    made packed;
    make_packed(&packed, m);
    const zc_kernel *kernel = zc_kernel_find(NULL);
    uint32_t tokens = (uint32_t)zc_layout_tokens(&m->layout);
    uint64_t nonce = tap_random(random);
    uint8_t *from = malloc(packed.layout.region_bytes), *to = malloc(m->layout.region_bytes);
    int32_t *pos = calloc(tokens, sizeof *pos);
    zc_state any = {1, 2, 3, 4, 5, (int32_t)tap_below(random, 1000), NULL};
    zc_difference rows, guards;
    if (!from || !to || !pos) abort();
    zc_rows_write(from, &packed.layout, nonce, kernel);
    zc_guard_fill(to, &m->layout, 9, kernel);
    int fd = file_of(NULL, 0);
    int64_t bytes = (int64_t)zc_state_bytes(&m->layout);
    int good = zc_state_save(fd, &any, from, &packed.layout) == bytes && lseek(fd, 0, SEEK_END) == bytes;
    lseek(fd, 0, SEEK_SET);
    good = good && zc_state_restore(fd, &any, to, &m->layout, pos) == bytes;
    zc_rows_check(to, &m->layout, nonce, kernel, &rows);
    zc_guard_check(to, &m->layout, 9, -1, kernel, &guards);
    for (uint32_t i = 0; i < tokens; i++) good = good && pos[i] == any.first_pos + (int32_t)i;
    close(fd);
    free(pos);
    free(to);
    free(from);
    return good && rows.kind == 0 && guards.kind == 0;
}

static void round_trips(const char *what, const shape *s, int rounds) {
    uint64_t random = 61;
    int good = 1;
    made m;
    for (int i = 0; good && i < rounds; i++) {
        make_layout(&m, s, &random);
        good = round_trip(&m, &random);
    }
    ok(good, "%s: %d round trips bring back the rows and touch nothing else", what, rounds);
}

static int save_and_restore(void *context) {
    const made *m = context;
    uint8_t *memory = mmap(NULL, m->layout.region_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    static int32_t pos[64];
    int fd = file_of(NULL, 0);
    int64_t status = zc_state_save(fd, &state, memory, &m->layout);
    lseek(fd, 0, SEEK_SET);
    if (status >= 0) status = zc_state_restore(fd, &state, memory, &m->layout, pos);
    close(fd);
    munmap(memory, m->layout.region_bytes);
    return status < 0 ? (int)status : 0;
}

static void interrupted(void) {
    uint64_t random = 71;
    made m;
    make_layout(&m, &(shape){30, 40, 1, 1}, &random);
    fake_sweep("saving and restoring a state", save_and_restore, &m, 0);
    fake_short(1);
    ok(round_trip(&m, &random), "reads and writes of a single byte at a time come to the same");
    fake_short(7);
    ok(round_trip(&m, &random), "and of seven");
    fake_short(0);
    fake_fail("writev", 1, EINTR);
    ok(round_trip(&m, &random) && fake_hit(), "a signal while writing is not an error");
    fake_fail("readv", 1, EINTR);
    ok(round_trip(&m, &random) && fake_hit(), "nor while reading");
    fake_fail("writev", 1, ENOSPC);
    is(save_and_restore(&m), -ENOSPC, "a full disk is told");
    fake_fail(NULL, 0, 0);
}

/* The decoder's half as one call, by name: what it times is its own affair, that it has a span is not. */
static int64_t load_plain(size_t count, int dmabuf, uint64_t *ns) {
    tiny t;
    uint8_t back[REGION] = {0};
    int32_t pos[2] = {0};
    char path[64];
    make_tiny(&t, 0);
    int fd = file_of(plain, count), memory = memfd_create("target", MFD_CLOEXEC);
    zc_mapping target = {back, REGION, memory};
    if (dmabuf) sim_dmabuf(memory);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int64_t got = zc_state_load(path, &state, &target, dmabuf, &t.layout, pos, ns);
    if (got >= 0 && memcmp(back, region, REGION)) got = -EBADMSG;
    close(memory);
    close(fd);
    return got;
}

static void loaded(void) {
    uint64_t ns = 0;
    int begun = sim_begun(), ended = sim_ended();
    is(load_plain(sizeof plain, 0, &ns), sizeof plain, "loaded by its name");
    ok(ns > 0 && sim_begun() == begun, "with a span, and no SYNC on ordinary memory");
    is(load_plain(sizeof plain, 1, &ns), sizeof plain, "loaded into a simulated dma-buf");
    ok(sim_begun() == begun + 1 && sim_ended() == ended + 1, "inside one pair of start and end");
    ns = 77;
    is(load_plain(sizeof plain - 1, 1, &ns), -ENODATA, "a file cut short is refused");
    ok(sim_begun() == begun + 2 && sim_ended() == ended + 2, "and the pair is closed all the same");
    ok(ns == 77, "and what failed has no span");
    is(zc_state_load("/nonexistent/state", &state, &(zc_mapping){.fd = -1}, 0, &(zc_layout){0}, NULL, &ns), -ENOENT,
       "a file that is not there is told");
}

int main(void) {
    sizes();
    loaded();
    golden("plain", 0, plain, sizeof plain);
    golden("transposed V", 1, turned, sizeof turned);
    truncated();
    flipped();
    other_geometry();
    round_trips("contiguous", &(shape){40, 64, 0, 0}, 80);
    round_trips("scattered", &(shape){40, 64, 0, 1}, 80);
    round_trips("transposed", &(shape){40, 64, 1, 1}, 120);
    interrupted();
    return tap_done();
}
