/* What every part of the provider needs: its slots, and the sentence that goes with a failure. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "provider.h"

zc_layout zc_slot_layout(const zc_slot *slot) {
    return (zc_layout){slot->region_bytes, slot->tensors, slot->runs, slot->n_tensors, slot->n_cells, slot->n_runs};
}

void zc_slot_clear(zc_slot *slot) {
    zc_unmap(&slot->mapping);
    free(slot->tensors);
    free(slot->runs);
    *slot = (zc_slot){.mapping = {.fd = -1}};
}

int zc_because(zc_provider *p, int code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(p->why, sizeof p->why, format, arguments);
    va_end(arguments);
    return code;
}
