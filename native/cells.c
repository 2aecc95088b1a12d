#include "cells.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_BITS = 64, PLANES = ZC_MAX_SEQUENCES / WORD_BITS };

typedef struct ordered {
    uint64_t *keys; /* ascending */
    uint32_t length, room;
} ordered;

struct zc_cells {
    uint32_t size, used_count, head, clash;
    int32_t *pos, *shift;
    uint64_t *used;           /* one bit per cell */
    uint64_t *planes[PLANES]; /* plane p, cell i: ids 64p to 64p + 63 */
    ordered by_sequence[ZC_MAX_SEQUENCES];
};

static size_t words_of(uint32_t cells) { return ((size_t)cells + WORD_BITS - 1) / WORD_BITS; }
static int bit(const uint64_t *words, uint32_t index) { return words[index / WORD_BITS] >> index % WORD_BITS & 1; }
static uint64_t key_of(int32_t pos, uint32_t cell) { return (uint64_t)(uint32_t)pos << 32 | cell; }

static int allocate(zc_cells *table) {
    table->pos = malloc(table->size * sizeof *table->pos);
    table->shift = calloc(table->size, sizeof *table->shift);
    table->used = calloc(words_of(table->size), sizeof *table->used);
    if (!table->pos || !table->shift || !table->used) return -ENOMEM;
    memset(table->pos, 0xff, table->size * sizeof *table->pos);
    for (int p = 0; p < PLANES; p++) {
        table->planes[p] = calloc(table->size, sizeof *table->planes[p]);
        if (!table->planes[p]) return -ENOMEM;
    }
    return 0;
}

int zc_cells_new(uint32_t size, zc_cells **out) {
    if (size == 0 || size > INT32_MAX) return -EINVAL;
    zc_cells *table = calloc(1, sizeof *table);
    if (!table) return -ENOMEM;
    table->size = size;
    int status = allocate(table);
    if (status < 0) {
        zc_cells_free(table);
        return status;
    }
    *out = table;
    return 0;
}

void zc_cells_free(zc_cells *table) {
    if (!table) return;
    for (int s = 0; s < ZC_MAX_SEQUENCES; s++) free(table->by_sequence[s].keys);
    for (int p = 0; p < PLANES; p++) free(table->planes[p]);
    free(table->used);
    free(table->shift);
    free(table->pos);
    free(table);
}

static int grow(ordered *order, uint32_t room) {
    if (room <= order->room) return 0;
    uint64_t *keys = realloc(order->keys, room * sizeof *keys);
    if (!keys) return -ENOMEM;
    order->keys = keys;
    order->room = room;
    return 0;
}

int zc_cells_reserve(zc_cells *table, uint32_t sequence, uint32_t count) {
    if (sequence >= ZC_MAX_SEQUENCES) return -EINVAL;
    ordered *order = &table->by_sequence[sequence];
    if (count > INT32_MAX || order->length > INT32_MAX - count) return -ENOMEM;
    int status = grow(order, order->length + count);
    if (status < 0) return status;
    if (count) memset(order->keys + order->length, 0, count * sizeof *order->keys);
    /* calloc's pages come in with their first write; a read would map the shared zero page and fault again. */
    uint64_t *plane = table->planes[sequence / WORD_BITS];
    for (uint32_t cell = 0; cell < table->size; cell += 512) {
        ((volatile uint64_t *)plane)[cell] = plane[cell];
        ((volatile int32_t *)table->shift)[cell] = table->shift[cell];
    }
    return 0;
}

/* A mask of the bits of word `word` that lie in [first, end). */
static uint64_t word_mask(size_t word, uint32_t first, uint32_t end) {
    uint64_t low = word * WORD_BITS, mask = ~UINT64_C(0);
    if (first > low) mask &= ~UINT64_C(0) << (first - low);
    if (end < low + WORD_BITS) mask &= ~UINT64_C(0) >> (low + WORD_BITS - end);
    return mask;
}

static int check_range(zc_cells *table, uint32_t first, uint32_t count) {
    if (first >= table->size || count > table->size - first) return -ERANGE;
    uint32_t end = first + count;
    for (size_t word = first / WORD_BITS; word * WORD_BITS < end; word++) {
        uint64_t taken = table->used[word] & word_mask(word, first, end);
        if (!taken) continue;
        table->clash = (uint32_t)(word * WORD_BITS) + (uint32_t)__builtin_ctzll(taken);
        return -EBUSY;
    }
    return 0;
}

static int check_list(zc_cells *table, const uint32_t *cells, uint32_t count) {
    uint64_t taken = 0;
    uint32_t unordered = 0;
    for (uint32_t i = 1; i < count; i++) unordered |= cells[i] <= cells[i - 1];
    if (unordered || cells[count - 1] >= table->size) return -ERANGE;
    for (uint32_t i = 0; i < count; i++) taken |= table->used[cells[i] / WORD_BITS] >> cells[i] % WORD_BITS & 1;
    if (!taken) return 0;
    for (uint32_t i = 0; i < count; i++)
        if (bit(table->used, cells[i])) {
            table->clash = cells[i];
            break;
        }
    return -EBUSY;
}

/* 1 where every position is above the one before it, 0 where not; -EINVAL for a negative one. */
static int positions_ascend(const int32_t *pos, uint32_t count) {
    int32_t negative = pos[0];
    uint32_t unordered = 0;
    for (uint32_t i = 1; i < count; i++) {
        negative |= pos[i];
        unordered |= pos[i] <= pos[i - 1];
    }
    return negative < 0 ? -EINVAL : !unordered;
}

static int check(zc_cells *table, const zc_adoption *what) {
    if (!what->count || !what->n_sequences || !what->pos || !what->sequences) return -EINVAL;
    for (uint32_t s = 0; s < what->n_sequences; s++) {
        if (what->sequences[s] >= ZC_MAX_SEQUENCES) return -EINVAL;
        for (uint32_t t = 0; t < s; t++)
            if (what->sequences[s] == what->sequences[t]) return -EINVAL;
    }
    return what->cells ? check_list(table, what->cells, what->count) : check_range(table, what->first, what->count);
}

static int reserve_all(zc_cells *table, const zc_adoption *what) {
    for (uint32_t s = 0; s < what->n_sequences; s++) {
        ordered *order = &table->by_sequence[what->sequences[s]];
        if (what->count > INT32_MAX - order->length) return -ENOMEM;
        if (order->length + what->count > order->room) {
            int status = grow(order, order->length + what->count);
            if (status < 0) return status;
        }
    }
    return 0;
}

static int ascending_key(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* Restores the order after an append that did not ascend: keys are distinct since cells are. */
static void settle(ordered *order, uint32_t appended, int ascend) {
    uint32_t old = order->length - appended;
    uint64_t *tail = order->keys + old;
    if (!ascend) qsort(tail, appended, sizeof *tail, ascending_key);
    if (!old || order->keys[old - 1] < tail[0]) return;
    qsort(order->keys, order->length, sizeof *order->keys, ascending_key);
}

static void append(ordered *order, const zc_adoption *what) {
    uint64_t *restrict keys = order->keys + order->length;
    const int32_t *restrict pos = what->pos;
    const uint32_t *restrict cells = what->cells;
    uint32_t count = what->count, first = what->first;
    if (cells)
        for (uint32_t i = 0; i < count; i++) keys[i] = key_of(pos[i], cells[i]);
    else
        for (uint32_t i = 0; i < count; i++) keys[i] = key_of(pos[i], first + i);
    order->length += count;
}

static void take_range(zc_cells *table, const zc_adoption *what) {
    uint32_t first = what->first, count = what->count, end = first + count;
    memcpy(table->pos + first, what->pos, count * sizeof *table->pos);
    for (size_t word = first / WORD_BITS; word * WORD_BITS < end; word++)
        table->used[word] |= word_mask(word, first, end);
    for (uint32_t s = 0; s < what->n_sequences; s++) {
        uint64_t *restrict plane = table->planes[what->sequences[s] / WORD_BITS] + first;
        uint64_t id = UINT64_C(1) << what->sequences[s] % WORD_BITS;
        for (uint32_t i = 0; i < count; i++) plane[i] |= id;
    }
}

static void take_list(zc_cells *table, const zc_adoption *what) {
    const uint32_t *cells = what->cells;
    uint32_t count = what->count;
    for (uint32_t i = 0; i < count; i++) table->pos[cells[i]] = what->pos[i];
    for (uint32_t i = 0; i < count; i++) table->used[cells[i] / WORD_BITS] |= UINT64_C(1) << cells[i] % WORD_BITS;
    for (uint32_t s = 0; s < what->n_sequences; s++) {
        uint64_t *plane = table->planes[what->sequences[s] / WORD_BITS];
        uint64_t id = UINT64_C(1) << what->sequences[s] % WORD_BITS;
        for (uint32_t i = 0; i < count; i++) plane[cells[i]] |= id;
    }
}

int zc_cells_adopt(zc_cells *table, const zc_adoption *what) {
    int status = check(table, what);
    if (status < 0) return status;
    int ascend = positions_ascend(what->pos, what->count);
    if (ascend < 0) return ascend;
    status = reserve_all(table, what);
    if (status < 0) return status;

    what->cells ? take_list(table, what) : take_range(table, what);
    for (uint32_t s = 0; s < what->n_sequences; s++) {
        ordered *order = &table->by_sequence[what->sequences[s]];
        append(order, what);
        settle(order, what->count, ascend);
    }
    uint32_t last = what->cells ? what->cells[what->count - 1] : what->first + what->count - 1;
    table->used_count += what->count;
    table->head = (last + 1) % table->size;
    return 0;
}

static int held(const zc_cells *table, uint32_t cell) {
    uint64_t any = 0;
    for (int p = 0; p < PLANES; p++) any |= table->planes[p][cell];
    return any != 0;
}

int64_t zc_cells_remove(zc_cells *table, uint32_t sequence) {
    if (sequence >= ZC_MAX_SEQUENCES) return -EINVAL;
    ordered *order = &table->by_sequence[sequence];
    uint64_t *plane = table->planes[sequence / WORD_BITS];
    uint32_t freed = 0, lowest = table->head;
    for (uint32_t i = 0; i < order->length; i++) {
        uint32_t cell = (uint32_t)order->keys[i];
        plane[cell] &= ~(UINT64_C(1) << sequence % WORD_BITS);
        if (held(table, cell)) continue;
        table->pos[cell] = -1;
        table->shift[cell] = 0;
        table->used[cell / WORD_BITS] &= ~(UINT64_C(1) << cell % WORD_BITS);
        if (cell < lowest) lowest = cell;
        freed++;
    }
    order->length = 0;
    table->used_count -= freed;
    table->head = lowest; /* the search for free cells may begin at the first hole */
    return freed;
}

uint32_t zc_cells_size(const zc_cells *table) { return table->size; }
uint32_t zc_cells_used(const zc_cells *table) { return table->used_count; }
uint32_t zc_cells_head(const zc_cells *table) { return table->head; }
uint32_t zc_cells_clash(const zc_cells *table) { return table->clash; }
int32_t zc_cells_pos(const zc_cells *table, uint32_t cell) { return cell < table->size ? table->pos[cell] : -1; }
int32_t zc_cells_shift(const zc_cells *table, uint32_t cell) { return cell < table->size ? table->shift[cell] : 0; }
int zc_cells_has(const zc_cells *table, uint32_t cell, uint32_t sequence) {
    if (cell >= table->size || sequence >= ZC_MAX_SEQUENCES) return 0;
    return table->planes[sequence / WORD_BITS][cell] >> sequence % WORD_BITS & 1;
}
uint32_t zc_cells_length(const zc_cells *table, uint32_t sequence) {
    return sequence < ZC_MAX_SEQUENCES ? table->by_sequence[sequence].length : 0;
}
uint64_t zc_cells_pair(const zc_cells *table, uint32_t sequence, uint32_t index) {
    return index < zc_cells_length(table, sequence) ? table->by_sequence[sequence].keys[index] : ~UINT64_C(0);
}

static int audit_sequence(const zc_cells *table, uint32_t sequence) {
    const ordered *order = &table->by_sequence[sequence];
    uint32_t holding = 0;
    for (uint32_t cell = 0; cell < table->size; cell++) holding += (uint32_t)zc_cells_has(table, cell, sequence);
    if (holding != order->length) return -EUCLEAN;
    for (uint32_t i = 0; i < order->length; i++) {
        uint32_t cell = (uint32_t)order->keys[i];
        if (i && order->keys[i] <= order->keys[i - 1]) return -EUCLEAN;
        if (cell >= table->size || !zc_cells_has(table, cell, sequence)) return -EUCLEAN;
        if (key_of(table->pos[cell], cell) != order->keys[i]) return -EUCLEAN;
    }
    return 0;
}

int zc_cells_audit(const zc_cells *table) {
    uint32_t used = 0;
    for (uint32_t cell = 0; cell < table->size; cell++) {
        int taken = bit(table->used, cell);
        used += (uint32_t)taken;
        if (taken != held(table, cell) || taken != (table->pos[cell] >= 0)) return -EUCLEAN;
        if (!taken && table->shift[cell]) return -EUCLEAN;
    }
    if (used != table->used_count || table->head >= table->size) return -EUCLEAN;
    for (uint32_t s = 0; s < ZC_MAX_SEQUENCES; s++)
        if (audit_sequence(table, s) < 0) return -EUCLEAN;
    return 0;
}
