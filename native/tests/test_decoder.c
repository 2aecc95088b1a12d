/* The decoder's side against every answer a provider could give, and rows out of a pipe. */
#include "decoder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fake.h"
#include "layouts.h"
#include "stream.h"
#include "sys.h"
#include "tap.h"

enum { SOON = 30, LONG = 5000, REQUEST = 9 };

static int ours, theirs; /* the sockets' ends */
static _Alignas(8) char message[ZC_WIRE_MOST];

static void connect_pair(void) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends)) abort();
    ours = ends[0];
    theirs = ends[1];
}
static void disconnect(void) {
    close(ours);
    close(theirs);
}

static zc_wire_done sound_done(void) {
    return (zc_wire_done){{ZC_WIRE_MAGIC, ZC_WIRE_VERSION, ZC_DONE, sizeof(zc_wire_done), REQUEST},
                          {.op = ZC_OP_WRITE, .bytes = 77, .sent_ns = zc_sys_now()}};
}

/* What zc_answer makes of `bytes` of a DONE that `change` has been made to, with or without a descriptor. */
#define ANSWER(code, bytes, with, change)                                                                        \
    do {                                                                                                        \
        zc_wire_done done = sound_done();                                                                       \
        zc_received got;                                                                                        \
        change;                                                                                                 \
        fake_ledger before = fake_balance();                                                                    \
        zc_send(theirs, &done, bytes, with);                                                                     \
        int status = zc_answer(ours, REQUEST, ZC_DONE, sizeof done, LONG, message, &got);                       \
        fake_ledger after = fake_balance();                                                                     \
        ok(status == (code) && got.fd == -1 && fake_same(&before, &after), "an answer with " #change ": " #code); \
    } while (0)

static void answers(void) {
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    connect_pair();
    ANSWER(0, sizeof done, -1, (void)0);
    ANSWER(-EPROTO, sizeof done, fd, (void)0);
    ANSWER(-EBADMSG, sizeof done, fd, done.head.magic++);
    ANSWER(-EPROTONOSUPPORT, sizeof done, fd, done.head.version++);
    ANSWER(-EBADMSG, sizeof done, -1, done.head.request++);
    ANSWER(-EBADMSG, sizeof done, -1, done.head.request--);
    ANSWER(-EBADMSG, sizeof done, -1, done.head.type = ZC_MAPPED);
    ANSWER(-EBADMSG, sizeof done, -1, done.head.type = UINT16_MAX);
    ANSWER(-EBADMSG, sizeof done, -1, done.head.type = ZC_REFUSE);
    ANSWER(-EBADMSG, sizeof done, -1, done.head.bytes++);
    ANSWER(-EBADMSG, sizeof done, -1, done.head.bytes = UINT32_MAX);
    ANSWER(-EBADMSG, sizeof done - 1, -1, done.head.bytes--);
    ANSWER(-EBADMSG, sizeof done.head, -1, done.head.bytes = sizeof done.head);
    ANSWER(-EBADMSG, sizeof done.head - 1, -1, done.head.bytes = sizeof done.head - 1);
    ANSWER(-EBADMSG, 1, -1, (void)0);
    disconnect();
    close(fd);
}

static void refusals(void) {
    zc_wire_refuse refuse = {{ZC_WIRE_MAGIC, ZC_WIRE_VERSION, ZC_REFUSE, sizeof refuse, REQUEST}, -ENOMEM, 0, {0}};
    zc_received got;
    zc_handoff handoff;
    memset(refuse.text, 'x', sizeof refuse.text); /* no NUL anywhere */
    connect_pair();
    zc_send(theirs, &refuse, sizeof refuse, -1);
    is(zc_answer(ours, REQUEST, ZC_DONE, 0, LONG, message, &got), -EREMOTEIO, "a REFUSE is told apart");
    is(strlen(((zc_wire_refuse *)(void *)message)->text), ZC_WIRE_TEXT - 1, "and its sentence ends");
    zc_send(theirs, &refuse, sizeof refuse, -1);
    is(zc_take_over(ours, REQUEST, LONG, &(zc_takeover){0}, &handoff), -EREMOTEIO, "while taking over too");
    is(strlen(handoff.refusal), ZC_WIRE_TEXT - 1, "with its sentence");
    refuse.head.request = REQUEST - 1;
    zc_send(theirs, &refuse, sizeof refuse, -1);
    is(zc_answer(ours, REQUEST, ZC_DONE, 0, LONG, message, &got), -EREMOTEIO, "an earlier request's REFUSE counts");
    refuse.head.request = REQUEST + 1;
    zc_send(theirs, &refuse, sizeof refuse, -1);
    is(zc_answer(ours, REQUEST, ZC_DONE, 0, LONG, message, &got), -EBADMSG, "one of a request never made does not");
    is(zc_answer(ours, REQUEST, ZC_DONE, 0, SOON, message, &got), -ETIMEDOUT, "silence ends at the deadline");
    close(theirs);
    is(zc_take_over(ours, REQUEST, LONG, &(zc_takeover){0}, &handoff), -EPIPE, "a dead provider is gone at once");
    close(ours);
}

static void taking_over(void) {
    zc_wire_done done = sound_done();
    zc_cells *table = NULL;
    zc_adoption adoption = {NULL, (int32_t[]){0, 1}, (uint32_t[]){0}, 4, 2, 1};
    zc_handoff handoff;
    connect_pair();
    zc_cells_new(8, &table);
    zc_takeover how = {.table = table, .adoption = &adoption};
    zc_send(theirs, &done, sizeof done, -1);
    is(zc_take_over(ours, REQUEST, LONG, &how, &handoff), 0, "taken over");
    ok(zc_cells_used(table) == 2 && zc_cells_pos(table, 5) == 1 && handoff.done.bytes == 77 &&
           handoff.woke_ns >= done.done.sent_ns && handoff.ready_ns >= handoff.adopt_ns && !handoff.copied,
       "the cells are adopted and the times follow one another");
    zc_send(theirs, &done, sizeof done, -1);
    is(zc_take_over(ours, REQUEST, LONG, &how, &handoff), -EBUSY, "the same cells again: occupied");
    ok(handoff.woke_ns && zc_cells_used(table) == 2, "which is our fault and not the peer's");
    done.head.request++;
    zc_send(theirs, &done, sizeof done, -1);
    zc_cells_remove(table, 0);
    is(zc_take_over(ours, REQUEST, LONG, &how, &handoff), -EBADMSG, "another request's DONE adopts nothing");
    ok(!handoff.woke_ns && zc_cells_used(table) == 0, "and the table is as it was");
    done.head.request--;
    done.done.sent_ns = UINT64_MAX;
    zc_send(theirs, &done, sizeof done, -1);
    ok(zc_take_over(ours, REQUEST, LONG, &how, &handoff) == 0 && handoff.ready_ns == 0, "a time in the future is no time");
    zc_cells_free(table);
    disconnect();
}

static int answer_with_descriptor(void *context) {
    zc_received got;
    zc_wire_done done = sound_done();
    connect_pair();
    zc_send(theirs, &done, sizeof done, *(int *)context);
    int status = zc_answer(ours, REQUEST, ZC_DONE, sizeof done, SOON, message, &got);
    disconnect();
    return status == -EPROTO ? 0 : status;
}

typedef struct stream {
    made target, source;
    uint8_t *region, *packed;
    int ends[2];
} stream;

static void open_stream(stream *s, const shape *of, uint64_t *random) {
    make_layout(&s->target, of, random);
    make_packed(&s->source, &s->target);
    s->region = malloc(s->target.layout.region_bytes);
    s->packed = malloc(s->source.layout.region_bytes);
    if (!s->region || !s->packed || pipe2(s->ends, O_NONBLOCK | O_CLOEXEC)) abort();
    zc_rows_write(s->packed, &s->source.layout, 3, zc_kernel_find(NULL));
    zc_guard_fill(s->region, &s->target.layout, 9, zc_kernel_find(NULL));
    connect_pair();
}
static void close_stream(stream *s) {
    free(s->region);
    free(s->packed);
    close(s->ends[0]);
    if (s->ends[1] >= 0) close(s->ends[1]);
    disconnect();
}
static int64_t receive_stream(stream *s, int timeout) {
    return zc_rows_receive(s->ends[0], ours, timeout, s->region, &s->target.layout);
}

static int stream_rows(void *context) {
    stream s;
    uint64_t random = 81;
    zc_difference rows, guards;
    open_stream(&s, context, &random);
    ssize_t sent = write(s.ends[1], s.packed, s.source.layout.region_bytes);
    int64_t got = receive_stream(&s, LONG);
    zc_rows_check(s.region, &s.target.layout, 3, zc_kernel_find(NULL), &rows);
    zc_guard_check(s.region, &s.target.layout, 9, -1, zc_kernel_find(NULL), &guards);
    close_stream(&s);
    if (got < 0) return (int)got;
    return got == sent && rows.kind == 0 && guards.kind == 0 ? 0 : -EILSEQ;
}

/* On an open stream: what an earlier run has left in the pipe goes first. */
static int stream_again(void *context) {
    stream *s = context;
    char left[512];
    while (read(s->ends[0], left, sizeof left) > 0) {}
    if (write(s->ends[1], s->packed, s->source.layout.region_bytes) < 0) abort();
    int64_t got = receive_stream(s, SOON);
    return got < 0 ? (int)got : 0;
}

static void streams(void) {
    shape padded = {20, 40, 1, 1};
    stream s;
    uint64_t random = 81;
    is(stream_rows(&padded), 0, "rows out of a pipe lie where they belong, and nothing else is touched");
    fake_short(3);
    is(stream_rows(&padded), 0, "three bytes at a time too");
    fake_short(0);

    open_stream(&s, &padded, &random);
    is(receive_stream(&s, SOON), -ETIMEDOUT, "nothing in the pipe: the deadline ends it");
    if (write(s.ends[1], s.packed, 1) != 1) abort();
    zc_send(theirs, "done", 4, -1);
    is(receive_stream(&s, LONG), -ENODATA, "done, but rows are missing: told at once");
    close(s.ends[1]);
    s.ends[1] = -1;
    is(receive_stream(&s, LONG), -ENODATA, "a closed pipe ends it as well");
    close_stream(&s);
    open_stream(&s, &padded, &random);
    fake_sweep("rows out of a pipe", stream_again, &s, 0);
    close_stream(&s);
}

int main(void) {
    answers();
    refusals();
    taking_over();
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    fake_sweep("an answer with a descriptor", answer_with_descriptor, &fd, 0);
    close(fd);
    streams();
    return tap_done();
}
