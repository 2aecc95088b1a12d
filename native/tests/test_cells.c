/* The cell table against a naive model of what adopting and removing mean. cells.c is included whole, so that the
 * audit can be shown to see each way in which a table may contradict itself. */
#include "../cells.c"

#include "fake.h"
#include "tap.h"

enum { MOST_CELLS = 300, MODEL_IDS = 7 };
static const uint32_t ids[MODEL_IDS] = {0, 1, 63, 64, 127, 128, 255};

typedef struct model {
    uint32_t size, head, used;
    int32_t pos[MOST_CELLS]; /* -1: free */
    uint8_t in[MOST_CELLS][MODEL_IDS];
} model;

static void model_new(model *m, uint32_t size) {
    *m = (model){.size = size};
    for (uint32_t i = 0; i < size; i++) m->pos[i] = -1;
}

static uint32_t cell_at(const zc_adoption *what, uint32_t i) { return what->cells ? what->cells[i] : what->first + i; }

static int model_adopt(model *m, const zc_adoption *what, const uint32_t *chosen) {
    for (uint32_t i = 0; i < what->count; i++)
        if (cell_at(what, i) >= m->size) return -ERANGE;
    for (uint32_t i = 0; i < what->count; i++)
        if (m->pos[cell_at(what, i)] >= 0) return -EBUSY;
    for (uint32_t i = 0; i < what->count; i++) {
        m->pos[cell_at(what, i)] = what->pos[i];
        for (uint32_t s = 0; s < what->n_sequences; s++) m->in[cell_at(what, i)][chosen[s]] = 1;
    }
    m->used += what->count;
    m->head = (cell_at(what, what->count - 1) + 1) % m->size;
    return 0;
}

static uint32_t model_remove(model *m, uint32_t id) {
    uint32_t freed = 0;
    for (uint32_t i = m->size; i-- > 0;) {
        int others = 0;
        if (!m->in[i][id]) continue;
        m->in[i][id] = 0;
        for (int s = 0; s < MODEL_IDS; s++) others |= m->in[i][s];
        if (others) continue;
        m->pos[i] = -1;
        if (i < m->head) m->head = i;
        freed++;
    }
    m->used -= freed;
    return freed;
}

/* The ordered pairs of a sequence are its cells' (pos, cell), each once, ascending. */
static int same_pairs(const zc_cells *table, const model *m, uint32_t id) {
    uint32_t cells = 0, length = zc_cells_length(table, ids[id]);
    for (uint32_t i = 0; i < m->size; i++) cells += m->in[i][id];
    if (cells != length || zc_cells_pair(table, ids[id], length) != ~UINT64_C(0)) return 0;
    for (uint32_t i = 0; i < length; i++) {
        uint64_t pair = zc_cells_pair(table, ids[id], i);
        uint32_t cell = (uint32_t)pair;
        if (i && pair <= zc_cells_pair(table, ids[id], i - 1)) return 0;
        if (cell >= m->size || !m->in[cell][id] || m->pos[cell] != (int32_t)(pair >> 32)) return 0;
    }
    return 1;
}

static int same(const zc_cells *table, const model *m) {
    if (zc_cells_size(table) != m->size || zc_cells_used(table) != m->used || zc_cells_head(table) != m->head) return 0;
    for (uint32_t i = 0; i < m->size; i++) {
        if (zc_cells_pos(table, i) != m->pos[i] || zc_cells_shift(table, i)) return 0;
        for (uint32_t s = 0; s < MODEL_IDS; s++)
            if (zc_cells_has(table, i, ids[s]) != m->in[i][s]) return 0;
    }
    for (uint32_t s = 0; s < MODEL_IDS; s++)
        if (!same_pairs(table, m, s)) return 0;
    return zc_cells_audit(table) == 0;
}

typedef struct request {
    uint32_t cells[MOST_CELLS], sequences[MODEL_IDS], chosen[MODEL_IDS];
    int32_t pos[MOST_CELLS];
    zc_adoption what;
} request;

/* Positions ascend, or repeat and fall, or lie below those of earlier requests (so that runs must be merged). */
static void choose_positions(request *r, uint64_t *random) {
    uint32_t kind = tap_below(random, 3);
    int32_t base = (int32_t)tap_below(random, 1000);
    for (uint32_t i = 0; i < r->what.count; i++)
        r->pos[i] = kind ? base + (int32_t)i : (int32_t)tap_below(random, 50);
}

static void choose_cells(request *r, const model *m, uint64_t *random) {
    uint32_t n = 0, odds = 1 + tap_below(random, 6), bold = tap_below(random, 8) == 0;
    for (uint32_t i = 0; i < m->size; i++)
        if ((m->pos[i] < 0 || bold) && tap_below(random, odds) == 0) r->cells[n++] = i;
    if (!n) r->cells[n++] = tap_below(random, m->size);
    r->what.cells = r->cells;
    r->what.count = n;
}

static void choose(request *r, const model *m, uint64_t *random) {
    r->what = (zc_adoption){.pos = r->pos, .sequences = r->sequences};
    if (tap_below(random, 2)) {
        r->what.first = tap_below(random, m->size);
        r->what.count = 1 + tap_below(random, m->size / 2 + 1);
    } else {
        choose_cells(r, m, random);
    }
    for (uint32_t s = 0; s < MODEL_IDS; s++)
        if (tap_below(random, 3) == 0) {
            r->chosen[r->what.n_sequences] = s;
            r->sequences[r->what.n_sequences++] = ids[s];
        }
    if (!r->what.n_sequences) {
        r->chosen[0] = tap_below(random, MODEL_IDS);
        r->sequences[r->what.n_sequences++] = ids[r->chosen[0]];
    }
    choose_positions(r, random);
}

static int step(zc_cells *table, model *m, uint64_t *random) {
    static request r;
    if (tap_below(random, 3) == 0) {
        uint32_t id = tap_below(random, MODEL_IDS);
        return zc_cells_remove(table, ids[id]) == model_remove(m, id);
    }
    choose(&r, m, random);
    if (tap_below(random, 4) == 0 && zc_cells_reserve(table, r.sequences[0], r.what.count)) return 0;
    int expected = model_adopt(m, &r.what, r.chosen), got = zc_cells_adopt(table, &r.what);
    if (got == -EBUSY && m->pos[zc_cells_clash(table)] < 0) return 0;
    return got == expected;
}

static void against_model(uint32_t size, uint64_t seed, int steps) {
    static model m;
    zc_cells *table = NULL;
    int good = zc_cells_new(size, &table) == 0, i = 0;
    model_new(&m, size);
    for (; good && i < steps; i++) good = step(table, &m, &seed) && same(table, &m);
    ok(good, "%u cells agree with the model and pass the audit after each of %d steps", size, steps);
    if (!good) tap_comment("at step %d", i);
    zc_cells_free(table);
}

static int adopt(zc_cells *table, const uint32_t *cells, uint32_t first, uint32_t count, int32_t pos, uint32_t id) {
    static int32_t positions[MOST_CELLS];
    for (uint32_t i = 0; i < count && i < MOST_CELLS; i++) positions[i] = pos + (int32_t)i;
    zc_adoption what = {cells, positions, &id, first, count, 1};
    return zc_cells_adopt(table, &what);
}

static void limits(void) {
    zc_cells *table = NULL;
    is(zc_cells_new(0, &table), -EINVAL, "a table of no cells is refused");
    is(zc_cells_new(UINT32_C(1) << 31, &table), -EINVAL, "a table of 2^31 cells is refused");
    is(zc_cells_new(UINT32_MAX, &table), -EINVAL, "a table of 2^32 - 1 cells is refused");
    ok(!table && zc_cells_new(100, &table) == 0, "refusals make nothing, 100 cells are made");
    is(adopt(table, NULL, 0, 0, 0, 0), -EINVAL, "adopting no cells is refused");
    is(adopt(table, NULL, 0, 1, 0, 256), -EINVAL, "sequence 256 is refused");
    is(adopt(table, NULL, 0, 2, -1, 0), -EINVAL, "a negative position is refused");
    is(adopt(table, NULL, 100, 1, 0, 0), -ERANGE, "a range from past the end is refused");
    is(adopt(table, NULL, 99, 2, 0, 0), -ERANGE, "a range over the end is refused");
    is(adopt(table, NULL, 1, UINT32_MAX, 0, 0), -ERANGE, "a range that wraps around is refused");
    is(adopt(table, (uint32_t[]){1, 1}, 0, 2, 0, 0), -ERANGE, "the same cell twice is refused");
    is(adopt(table, (uint32_t[]){2, 1}, 0, 2, 0, 0), -ERANGE, "falling cells are refused");
    is(adopt(table, (uint32_t[]){1, 100}, 0, 2, 0, 0), -ERANGE, "a cell outside is refused");
    zc_adoption twice = {NULL, (int32_t[]){0}, (uint32_t[]){3, 3}, 0, 1, 2};
    is(zc_cells_adopt(table, &twice), -EINVAL, "the same sequence twice is refused");
    is(zc_cells_remove(table, 256), -EINVAL, "removing sequence 256 is refused");
    is(zc_cells_reserve(table, 256, 1), -EINVAL, "reserving for sequence 256 is refused");
    is(zc_cells_reserve(table, 0, 0), 0, "reserving for nothing is fine");
    is(zc_cells_reserve(table, 0, UINT32_MAX), -ENOMEM, "reserving 2^32 - 1 pairs is refused");
    ok(zc_cells_used(table) == 0 && zc_cells_audit(table) == 0, "nothing of it has touched the table");
    ok(zc_cells_pos(table, 100) == -1 && !zc_cells_has(table, 100, 0) && !zc_cells_has(table, 0, 256) &&
           zc_cells_length(table, 256) == 0 && zc_cells_pair(table, 0, 0) == ~UINT64_C(0), "reading outside is harmless");
    is(adopt(table, NULL, 99, 1, INT32_MAX, 255), 0, "the last cell, the last position, the last sequence");
    is(zc_cells_head(table), 0, "after the last cell the head wraps");
    is(adopt(table, (uint32_t[]){1, 99}, 0, 2, 0, 0), -EBUSY, "an occupied cell is refused");
    is(zc_cells_clash(table), 99, "and named");
    ok(zc_cells_pos(table, 1) == -1 && zc_cells_audit(table) == 0, "and its free companion stays free");
    zc_cells_free(table);
    zc_cells_free(NULL);
}

/* Each corruption, undone again by its own inverse, must be seen by the audit. */
static void audit_bites(void) {
    zc_cells *t = NULL;
    ok(zc_cells_new(70, &t) == 0 && adopt(t, NULL, 3, 5, 10, 65) == 0 && zc_cells_audit(t) == 0, "a sound table");
    uint64_t *keys = t->by_sequence[65].keys;
#define SEEN(change, undo, name)                    \
    do {                                            \
        change;                                     \
        is(zc_cells_audit(t), -EUCLEAN, name);      \
        undo;                                       \
    } while (0)
    SEEN(t->used[0] ^= 8, t->used[0] ^= 8, "audit: a used cell's bit is clear");
    SEEN(t->used[1] ^= 1, t->used[1] ^= 1, "audit: a free cell's bit is set");
    SEEN(t->pos[3] = -1, t->pos[3] = 10, "audit: a used cell without a position");
    SEEN(t->pos[4]++, t->pos[4]--, "audit: a position that its pair does not have");
    SEEN(t->pos[60] = 1, t->pos[60] = -1, "audit: a free cell with a position");
    SEEN(t->shift[60] = 1, t->shift[60] = 0, "audit: a free cell with a shift");
    SEEN(t->planes[1][3] ^= 2, t->planes[1][3] ^= 2, "audit: a used cell that no sequence holds");
    SEEN(t->planes[0][3] ^= 1, t->planes[0][3] ^= 1, "audit: a sequence's cell without its pair");
    SEEN(t->used_count++, t->used_count--, "audit: a wrong count of used cells");
    SEEN(t->head = 70, t->head = 8, "audit: a head outside");
    SEEN(t->by_sequence[65].length--, t->by_sequence[65].length++, "audit: a missing pair");
    SEEN(keys[0] += UINT64_C(5) << 32, keys[0] -= UINT64_C(5) << 32, "audit: pairs out of order");
    SEEN(keys[1] = keys[0], keys[1] = key_of(11, 4), "audit: a pair twice");
#undef SEEN
    is(zc_cells_audit(t), 0, "all undone, the table is sound");
    zc_cells_free(t);
}

static int all_of_it(void *context) {
    zc_cells *table = NULL;
    (void)context;
    int status = zc_cells_new(200, &table);
    if (status == 0) status = adopt(table, NULL, 0, 10, 0, 3);
    if (status == 0) status = zc_cells_reserve(table, 3, 100);
    if (status == 0) {
        zc_adoption both = {NULL, (int32_t[]){7, 5}, (uint32_t[]){3, 4}, 50, 2, 2};
        uint32_t used = zc_cells_used(table);
        status = zc_cells_adopt(table, &both);
        if (status < 0 && (zc_cells_used(table) != used || zc_cells_audit(table))) status = 1; /* not all or nothing */
    }
    zc_cells_free(table);
    return status;
}

int main(void) {
    limits();
    audit_bites();
    against_model(1, 11, 200);
    against_model(64, 12, 800);
    against_model(67, 13, 800);
    against_model(MOST_CELLS, 14, 400);
    fake_sweep("the cell table", all_of_it, NULL, 0);
    return tap_done();
}
