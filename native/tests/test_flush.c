/* Sweeps by line: which lines, and that no byte changes. A flusher that only takes notes stands in for the CPU's. */
#include "flush.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tap.h"

enum { PAGE = 4096 };

static const uint8_t *first, *last;
static unsigned sweeps;
static size_t step;

static void note(const uint8_t *from, const uint8_t *end, size_t line) {
    sweeps++;
    first = from;
    last = end;
    step = line;
}
static const zc_flusher recorder = {"recorder", note};

static void rounding(const uint8_t *page) {
    size_t line = zc_cache_line();
    ok(line >= 16 && line <= 2048 && !(line & (line - 1)), "a line of %d bytes", (int)line);
    zc_flush(page + 1, 1, &recorder);
    ok(sweeps == 1 && first == page && last == page + 2 && step == line, "one byte is its line");
    zc_flush(page + line - 1, 2, &recorder);
    ok(first == page && last == page + line + 1, "two bytes on both sides of a border are two lines");
    zc_flush(page + line, 2 * line, &recorder);
    ok(first == page + line && last == page + 3 * line, "whole lines are those lines");
    zc_flush(page, 0, &recorder);
    ok(sweeps == 3, "no bytes are no sweep");
}

/* Nothing is mapped on either side: a sweep beyond the range would end the program. */
static void on_an_island(const zc_flusher *how) {
    uint8_t *sea = mmap(NULL, 3 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *island = sea + PAGE;
    if (sea == MAP_FAILED || mprotect(island, PAGE, PROT_READ | PROT_WRITE)) abort();
    memset(island, 0x5a, PAGE);
    zc_flush(island, PAGE, how);
    zc_flush(island + PAGE - 1, 1, how);
    zc_flush(island, 1, how);
    int same = 1;
    for (int i = 0; i < PAGE; i++) same &= island[i] == 0x5a;
    ok(same, "%s: every byte is what it was, and nothing beyond is touched", how->name);
    munmap(sea, 3 * PAGE);
}

int main(void) {
    uint8_t *page = aligned_alloc(PAGE, PAGE);
    if (!page) abort();
    rounding(page);
    unsigned found = 0;
    for (const zc_flusher *how; (how = zc_flusher_at(found)); found++) {
        on_an_island(how);
        ok(zc_flusher_find(how->name) == how, "%s by its name", how->name);
    }
    ok(zc_flusher_find(NULL) == zc_flusher_at(0) && zc_flusher_find("") == zc_flusher_at(0), "the best is the first");
    ok(zc_flusher_find("wbinvd") == NULL, "no other name");
#if defined(__x86_64__) || defined(__aarch64__)
    ok(found > 0, "this CPU has one");
#endif
    free(page);
    return tap_done();
}
