/* The decoder's timed half: waiting for the provider's answer and taking the cells over, in one call. */
#ifndef ZC_DECODER_H
#define ZC_DECODER_H

#include "cells.h"
#include "fdpass.h"
#include "rows.h"
#include "wire.h"

/* What happens between "done" and "the decoder can go on". */
typedef struct zc_takeover {
    const zc_layout *target; /* with source: copy the rows from there to here before adopting; else NULL */
    const zc_layout *source;
    uint8_t *to;
    const uint8_t *from;
    zc_cells *table;
    const zc_adoption *adoption;
} zc_takeover;

typedef struct zc_handoff {
    zc_done done;       /* as the provider told it */
    uint64_t woke_ns;   /* CLOCK_MONOTONIC when the message was there */
    uint64_t copy_ns, adopt_ns;
    uint64_t ready_ns;  /* from the provider's done.sent_ns until the cells are adopted */
    uint64_t copied;    /* bytes */
    uint32_t sender_uid;
    int32_t has_sender;
    char refusal[ZC_WIRE_TEXT]; /* the provider's sentence where -EREMOTEIO is returned */
} zc_handoff;

/* Receives one answer of type `type` to `request` into `message` (at least ZC_WIRE_MOST bytes). 0, what zc_receive
 * returns, -EREMOTEIO after a REFUSE (its text is in `message`) of this request or an earlier one, -EPROTONOSUPPORT
 * for another version, -EPROTO where a descriptor came (no answer has one: it is closed), or -EBADMSG for anything
 * else, a wrong length (`bytes`, 0 for any) included. */
int zc_answer(int socket, uint32_t request, uint16_t type, uint64_t bytes, int timeout_ms, void *message,
              zc_received *got);

/* Waits for the DONE of `request`, then copies where asked and adopts. What zc_answer and zc_cells_adopt return. */
int zc_take_over(int socket, uint32_t request, int timeout_ms, const zc_takeover *how, zc_handoff *out);

/* zc_cells_adopt, timed inside. */
int zc_timed_adopt(zc_cells *table, const zc_adoption *what, uint64_t *ns);

/* zc_sync, timed inside: ns, or -errno. */
int64_t zc_timed_sync(int fd, unsigned flags);

#endif
