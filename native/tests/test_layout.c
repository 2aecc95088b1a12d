/* What zc_layout_check refuses: a peer may send any 64-bit number. And copying rows between layouts. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "layouts.h"
#include "rows.h"
#include "tap.h"

/* Two tensors of four cells of 16 bytes, in 128 bytes; the second transposed in elements of 2 where asked. */
static void simple(made *m, int transposed) {
    *m = (made){.layout = {128, m->tensors, m->runs, 2, 4, 1}};
    m->tensors[0] = (zc_tensor){.cell_stride = 16, .row_bytes = 16};
    m->tensors[1] = (zc_tensor){.offset = 64, .cell_stride = 16, .row_bytes = 16, .role = ZC_ROLE_V};
    if (transposed) {
        m->tensors[1].cell_stride = m->tensors[1].element_bytes = 2;
        m->tensors[1].channel_stride = 8;
    }
    m->runs[0] = (zc_run){0, 4};
}

#define REFUSES(transposed, code, change)                         \
    do {                                                          \
        made m;                                                   \
        simple(&m, transposed);                                   \
        change;                                                   \
        is(zc_layout_check(&m.layout), code, "refuses " #change); \
    } while (0)

static void rows_refused(void) {
    REFUSES(0, -EINVAL, m.layout.n_cells = 0);
    REFUSES(0, -EINVAL, m.layout.n_tensors = 0);
    REFUSES(0, -EINVAL, m.tensors[0].row_bytes = 0);
    REFUSES(0, -EINVAL, m.tensors[0].role = 2);
    REFUSES(0, -EINVAL, m.tensors[0].role = UINT32_MAX);
    REFUSES(0, -EINVAL, m.tensors[0].cell_stride = 15);
    REFUSES(0, -EINVAL, m.tensors[0].cell_stride = 0);
    REFUSES(0, -EINVAL, m.tensors[0].element_bytes = 2);
    REFUSES(0, -EINVAL, m.tensors[1].offset = 63);
    REFUSES(0, -EINVAL, m.tensors[0].offset = 1);
    REFUSES(0, -EINVAL, m.tensors[0].cell_stride = m.tensors[0].row_bytes = 17);
    REFUSES(0, -ERANGE, m.tensors[1].offset = 65);
    REFUSES(0, -ERANGE, m.layout.region_bytes = 127);
    REFUSES(0, -ERANGE, m.layout.region_bytes = 0);
    REFUSES(0, -ERANGE, m.tensors[0].offset = UINT64_MAX);
    REFUSES(0, -ERANGE, m.tensors[0].offset = UINT64_MAX - 63);
    REFUSES(0, -ERANGE, m.tensors[0].cell_stride = UINT64_MAX);
    REFUSES(0, -ERANGE, m.tensors[0].cell_stride = UINT64_C(1) << 63);
    REFUSES(0, -ERANGE, m.tensors[0].cell_stride = UINT64_MAX / 3 + 1);
    REFUSES(0, -ERANGE, m.tensors[0].cell_stride = UINT64_MAX / 3);
    REFUSES(0, -ERANGE, m.tensors[0].row_bytes = UINT32_MAX; m.tensors[0].cell_stride = UINT32_MAX);
    REFUSES(0, -ERANGE, m.layout.n_cells = UINT32_MAX);
}

static void transposed_refused(void) {
    REFUSES(1, -EINVAL, m.tensors[1].element_bytes = 0);
    REFUSES(1, -EINVAL, m.tensors[1].cell_stride = m.tensors[1].element_bytes = 3);
    REFUSES(1, -EINVAL, m.tensors[1].cell_stride = m.tensors[1].element_bytes = 16);
    REFUSES(1, -EINVAL, m.tensors[1].row_bytes = 15);
    REFUSES(1, -EINVAL, m.tensors[1].cell_stride = 4);
    REFUSES(1, -EINVAL, m.tensors[1].channel_stride = 7);
    REFUSES(1, -EINVAL, m.tensors[1].channel_stride = 1);
    REFUSES(1, -ERANGE, m.tensors[1].channel_stride = 9);
    REFUSES(1, -ERANGE, m.tensors[1].channel_stride = UINT64_MAX);
    REFUSES(1, -ERANGE, m.tensors[1].channel_stride = UINT64_MAX / 7 + 1);
    REFUSES(1, -ERANGE, m.tensors[1].row_bytes = UINT32_MAX - 1);
}

static void runs_refused(void) {
    REFUSES(0, -EINVAL, m.runs[0].count = 0);
    REFUSES(0, -ERANGE, m.runs[0].count = 5);
    REFUSES(0, -ERANGE, m.runs[0].first = 1);
    REFUSES(0, -ERANGE, m.runs[0].first = UINT32_MAX);
    REFUSES(0, -ERANGE, (m.runs[0] = (zc_run){2, UINT32_MAX - 1}));
    REFUSES(0, -EINVAL, (m.runs[0] = (zc_run){0, 2}, m.runs[1] = (zc_run){1, 1}, m.layout.n_runs = 2));
    REFUSES(0, -EINVAL, (m.runs[0] = (zc_run){2, 1}, m.runs[1] = (zc_run){0, 1}, m.layout.n_runs = 2));
}

static void accepted(void) {
    made m;
    simple(&m, 0);
    is(zc_layout_check(&m.layout), 0, "takes what fits to the byte");
    is(zc_layout_tokens(&m.layout), 4, "four tokens");
    is(zc_layout_payload(&m.layout), 128, "of 32 bytes");
    simple(&m, 1);
    is(zc_layout_check(&m.layout), 0, "takes a transposed V that fits to the byte");
    m.layout.n_cells = 1;
    m.layout.n_runs = 0;
    m.tensors[0].cell_stride = UINT64_MAX;
    is(zc_layout_check(&m.layout), 0, "a single cell's stride is never used, however large");
    m.layout.n_runs = 1;
    m.runs[0].count = 1;
    uint8_t region[128] = {0};
    zc_difference d;
    zc_rows_write(region, &m.layout, 5, zc_kernel_find("base"));
    zc_rows_check(region, &m.layout, 5, zc_kernel_find("base"), &d);
    is(d.kind, 0, "and does no harm");
}

static int copies(const made *target, uint64_t *random) {
    made source;
    make_packed(&source, target);
    if (zc_layout_check(&source.layout)) return 0;
    const zc_kernel *kernel = zc_kernel_find(NULL);
    uint8_t *from = malloc(source.layout.region_bytes), *to = malloc(target->layout.region_bytes);
    uint64_t nonce = tap_random(random);
    zc_difference rows, guards;
    if (!from || !to) abort();
    zc_rows_write(from, &source.layout, nonce, kernel);
    zc_guard_fill(to, &target->layout, 9, kernel);
    int good = zc_rows_copy(to, &target->layout, from, &source.layout) == (int64_t)zc_layout_payload(&target->layout);
    zc_rows_check(to, &target->layout, nonce, kernel, &rows);
    zc_guard_check(to, &target->layout, 9, -1, kernel, &guards);
    free(from);
    free(to);
    return good && rows.kind == 0 && guards.kind == 0;
}

static void copying(void) {
    uint64_t random = 41;
    int good = 1;
    made target, source;
    for (int i = 0; good && i < 150; i++) {
        make_layout(&target, &(shape){30, 60, 1, 1}, &random);
        good = copies(&target, &random);
    }
    ok(good, "rows copied from packed sources into 150 layouts are the same tokens' rows, and nothing else");
    uint8_t bytes[128] = {0};
#define WONT(change)                                                                                               \
    do {                                                                                                           \
        simple(&target, 0);                                                                                        \
        simple(&source, 0);                                                                                        \
        change;                                                                                                    \
        is(zc_rows_copy(bytes, &target.layout, bytes, &source.layout), -EINVAL, "will not copy where " #change);   \
    } while (0)
    WONT(source.tensors[0].row_bytes = 8);
    WONT(source.tensors[0].layer = 1);
    WONT(source.tensors[0].role = ZC_ROLE_V);
    WONT(source.layout.n_tensors = 1);
    WONT(source.runs[0].count = 3);
    WONT((source.runs[0] = target.runs[0] = (zc_run){1, 3}));
    WONT(source.tensors[0].cell_stride = 17);
    WONT(simple(&source, 1));
#undef WONT
}

int main(void) {
    rows_refused();
    transposed_refused();
    runs_refused();
    accepted();
    copying();
    return tap_done();
}
