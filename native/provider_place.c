/* Rows that were computed elsewhere: a real prefill's, read from its sequence-state file and placed into the region. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "provider.h"
#include "state.h"
#include "sys.h"

static const char *load_fault(int code) {
    switch (code) {
    case -ENODATA: return "shorter than these rows need";
    case -E2BIG: return "longer than these rows need";
    case -EILSEQ: return "not a sequence state of version 4";
    case -ESTALE: return "of another geometry, or of another sequence";
    default: return "cannot be read";
    }
}

int zc_provider_load(zc_provider *p, const zc_wire_begin *begin, const char *path, zc_done *done) {
    const zc_slot *slot = &p->slots[begin->slot];
    zc_layout layout = zc_slot_layout(slot);
    zc_state state = {.type_k = begin->type_k, .type_v = begin->type_v, .n_rot_k = begin->n_rot_k,
                      .n_rot_v = begin->n_rot_v, .sequence = begin->sequence};
    int32_t *pos = malloc(zc_layout_tokens(&layout) * sizeof *pos);
    if (!pos) return zc_because(p, -ENOMEM, "LOAD");
    uint64_t ns = 0;
    done->begin_ns = zc_sys_now();
    int64_t bytes = zc_state_load(path, &state, &slot->mapping, !!(slot->flags & ZC_REGION_SYNC), &layout, pos, &ns);
    done->end_ns = done->begin_ns + ns;
    free(pos);
    if (bytes < 0) return zc_because(p, (int)bytes, "%.100s is %s", path, load_fault((int)bytes));
    done->bytes = (uint64_t)bytes;
    return 0;
}

/* Every K row from where its layer's V row lies, and the other way round: the source's offsets change places. */
static int swap_source(zc_tensor *tensors, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = i + 1; j < count; j++) {
            zc_tensor *a = &tensors[i], *b = &tensors[j];
            if (a->layer != b->layer) continue;
            if (a->row_bytes != b->row_bytes || a->channel_stride || b->channel_stride) return -EINVAL;
            uint64_t at = a->offset;
            a->offset = b->offset;
            b->offset = at;
        }
    return 0;
}

static int64_t place_swapped(uint8_t *to, const zc_layout *target, const uint8_t *from, zc_layout source) {
    zc_tensor *wrong = malloc(source.n_tensors * sizeof *wrong);
    if (!wrong) return -ENOMEM;
    memcpy(wrong, source.tensors, source.n_tensors * sizeof *wrong);
    source.tensors = wrong;
    int status = swap_source(wrong, source.n_tensors);
    int64_t bytes = status < 0 ? status : zc_rows_copy(to, target, from, &source);
    free(wrong);
    return bytes;
}

int zc_provider_place(const zc_provider *p, const zc_slot *slot, uint32_t inject) {
    const zc_slot *from = &p->slots[1];
    if (slot == from || !from->mapping.at || !from->n_runs || from->n_runs != from->total_runs) return -EBADMSG;
    zc_layout target = zc_slot_layout(slot), packed = zc_slot_layout(from);
    int64_t bytes = -EINVAL;
    if (inject == ZC_NO_WRITE) bytes = 0;
    if (inject == ZC_SOUND || inject == ZC_EARLY_DONE)
        bytes = zc_rows_copy(slot->mapping.at, &target, from->mapping.at, &packed);
    if (inject == ZC_SWAP_KV) bytes = place_swapped(slot->mapping.at, &target, from->mapping.at, packed);
    return bytes < 0 ? (int)bytes : 0;
}
