/* The handoff's wire protocol, version 1: docs/protocol.md says it in words.
 *
 * Unix SEQPACKET; one message a packet, little endian, a 16-byte head and a body. The decoder asks, the provider
 * answers; a REFUSE may stand in place of any answer. Slots: 0 is the decoder's KV region, 1 a packed source. */
#ifndef ZC_WIRE_H
#define ZC_WIRE_H

#include <stdint.h>

#include "rows.h"

#define ZC_WIRE_MAGIC UINT32_C(0x3150435A) /* "ZCP1" */
enum { ZC_WIRE_VERSION = 1, ZC_WIRE_MOST = 64 * 1024, ZC_WIRE_TEXT = 240, ZC_WIRE_RUNS = 4096, ZC_SLOTS = 2 };

enum zc_wire_type {
    ZC_HELLO = 1,   /* both ways, first */
    ZC_TENSORS = 2, /* decoder: the layout of a slot */
    ZC_REGION = 3,  /* decoder, with a descriptor: map this as a slot; answered by MAPPED */
    ZC_MAPPED = 4,
    ZC_RUNS = 5,    /* decoder: which cells the next requests write */
    ZC_BEGIN = 6,   /* decoder: do this; answered by DONE */
    ZC_DONE = 7,
    ZC_DROP = 8,    /* decoder: unmap a slot; answered by DROPPED */
    ZC_DROPPED = 9,
    ZC_PIPE = 10,   /* decoder, with a descriptor: where STREAM writes */
    ZC_REFUSE = 11,
    ZC_BYE = 12,
};

typedef struct zc_wire_head {
    uint32_t magic;
    uint16_t version, type;
    uint32_t bytes;   /* of the whole message */
    uint32_t request; /* an answer carries its question's */
} zc_wire_head;

enum { ZC_DECODER = 1, ZC_PROVIDER = 2 };
enum { ZC_HELLO_ASAN = 1 };
typedef struct zc_wire_hello {
    zc_wire_head head;
    uint32_t role, pid, flags, reserved;
    char name[32];
} zc_wire_hello;

typedef struct zc_wire_tensors { /* followed by n_tensors times zc_tensor */
    zc_wire_head head;
    uint32_t slot, n_tensors, n_cells, type_k, type_v, reserved;
    uint64_t region_bytes;
} zc_wire_tensors;

enum { ZC_PASS_SCM = 0, ZC_PASS_INHERIT = 1 };
enum { ZC_REGION_SEALED = 1, ZC_REGION_SYNC = 2 };
typedef struct zc_wire_region {
    zc_wire_head head;
    uint32_t slot, pass;
    int32_t inherited_fd; /* where pass is INHERIT */
    uint32_t flags;       /* SEALED: must be sealed against SHRINK and GROW; SYNC: a dma-buf */
    uint64_t bytes, sent_ns;
} zc_wire_region;

typedef struct zc_wire_mapped {
    zc_wire_head head;
    uint32_t slot, reserved;
    uint64_t received_ns, map_ns, dev, ino;
} zc_wire_mapped;

typedef struct zc_wire_runs { /* followed by count times zc_run; offset 0 begins a new list */
    zc_wire_head head;
    uint32_t slot, offset, count, total;
} zc_wire_runs;

enum zc_op { ZC_OP_WRITE = 1, ZC_OP_SAVE = 2, ZC_OP_STREAM = 3, ZC_OP_LOAD = 4, ZC_OP_PLACE = 5 };
enum zc_inject {
    ZC_SOUND = 0, ZC_SWAP_KV = 1, ZC_STRIDE = 2, ZC_RUN_LONG = 3, ZC_SHORT = 4, ZC_EARLY_DONE = 5, ZC_NO_WRITE = 6
};
enum { ZC_BEGIN_PREREAD = 1, ZC_BEGIN_FRESH_FILE = 2 };
typedef struct zc_wire_begin { /* followed by the path, NUL included, for SAVE and LOAD */
    zc_wire_head head;
    uint32_t op, slot, inject, flags;
    uint64_t nonce;
    int32_t first_pos;
    uint32_t sequence, type_k, type_v, n_rot_k, n_rot_v;
} zc_wire_begin;

typedef struct zc_done {
    uint32_t op, reports; /* reports: what AddressSanitizer has counted in this request */
    uint64_t begin_ns, end_ns, preread_ns, preread_faults, faults, bytes, sent_ns;
} zc_done;
typedef struct zc_wire_done {
    zc_wire_head head;
    zc_done done;
} zc_wire_done;

typedef struct zc_wire_slot { /* DROP and DROPPED */
    zc_wire_head head;
    uint32_t slot, reserved;
} zc_wire_slot;

typedef struct zc_wire_refuse {
    zc_wire_head head;
    int32_t code; /* -errno */
    uint32_t reserved;
    char text[ZC_WIRE_TEXT]; /* one line, NUL-terminated */
} zc_wire_refuse;

_Static_assert(sizeof(zc_wire_head) == 16 && sizeof(zc_tensor) == 40 && sizeof(zc_run) == 8, "the wire's forms");
_Static_assert(sizeof(zc_wire_hello) == 64 && sizeof(zc_wire_tensors) == 48 && sizeof(zc_wire_region) == 48, "");
_Static_assert(sizeof(zc_wire_mapped) == 56 && sizeof(zc_wire_runs) == 32 && sizeof(zc_wire_begin) == 64, "");
_Static_assert(sizeof(zc_wire_done) == 80 && sizeof(zc_wire_slot) == 24 && sizeof(zc_wire_refuse) == 264, "");

#endif
