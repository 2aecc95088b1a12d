/* Mistakes that the sanitizers must catch, made through native/ itself: they prove that the lane's build is
 * instrumented, library and all, and that a report ends a program. With "sound" as second argument the same calls are
 * made without the mistake, and nothing may be reported. --list prints each name and what its report must say. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cells.h"
#include "mapping.h"
#include "provider.h"
#include "rows.h"

/* provider_asan.c's only need of provider_slot.c. */
zc_layout zc_slot_layout(const zc_slot *slot) {
    return (zc_layout){slot->region_bytes, slot->tensors, slot->runs, slot->n_tensors, slot->n_cells, slot->n_runs};
}

/* A row is filled one byte past the memory it was given. */
static void heap_overflow(int mistaken) {
    uint8_t *row = malloc(64);
    if (row) zc_kernel_find("base")->fill(row, mistaken ? 65 : 64, 1);
    free(row);
}

static void use_after_free(int mistaken) {
    zc_cells *table = NULL;
    if (zc_cells_new(8, &table) < 0) exit(2);
    if (!mistaken) printf("%u", zc_cells_size(table));
    zc_cells_free(table);
    if (mistaken) printf("%u", zc_cells_size(table));
}

static void signed_overflow(int mistaken) {
    volatile int big = mistaken ? INT_MAX : 1;
    big = big + 1;
}

static void misaligned(int mistaken) {
    static _Alignas(zc_layout) char room[2 * sizeof(zc_layout)];
    const zc_layout *layout = (const void *)(room + (mistaken ? 1 : 0));
    printf("%llu", (unsigned long long)zc_layout_tokens(layout));
}

static void leak(int mistaken) {
    zc_cells *volatile table = NULL;
    zc_cells *made = NULL;
    if (zc_cells_new(8, &made) < 0) exit(2);
    table = made;
    if (!mistaken) zc_cells_free(table);
    table = made = NULL;
}

/* Inside one mapping, where only poisoned ranges tell a provider's rows from what it must not write. */
static void poisoned_overrun(int mistaken) {
    zc_tensor tensor = {.cell_stride = 64, .row_bytes = 64};
    zc_run run = {0, 2};
    zc_slot slot = {.tensors = &tensor, .runs = &run, .n_tensors = 1, .n_cells = 64, .n_runs = 1, .region_bytes = 4096};
    if (zc_map(-1, 4096, &slot.mapping) < 0 || zc_asan_forbid(&slot) < 0) exit(2);
    zc_layout layout = zc_slot_layout(&slot);
    run.count += mistaken ? 1 : 0;
    zc_rows_write(slot.mapping.at, &layout, 7, zc_kernel_find("base"));
    zc_asan_allow(&slot);
    zc_unmap(&slot.mapping);
}

static const struct {
    const char *name, *report;
    void (*make)(int mistaken);
} mistakes[] = {
    {"heap-overflow", "heap-buffer-overflow", heap_overflow},
    {"use-after-free", "heap-use-after-free", use_after_free},
    {"signed-overflow", "signed integer overflow", signed_overflow},
    {"misaligned", "misaligned address", misaligned},
    {"leak", "detected memory leaks", leak},
    {"poisoned-overrun", "use-after-poison", poisoned_overrun},
};

int main(int argc, char **argv) {
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        if (argc == 2 && !strcmp(argv[1], "--list")) printf("%s\t%s\n", mistakes[i].name, mistakes[i].report);
        if (argc < 2 || strcmp(argv[1], mistakes[i].name)) continue;
        mistakes[i].make(argc == 2);
        return 0;
    }
    return argc == 2 && !strcmp(argv[1], "--list") ? 0 : 2;
}
