/* The provider, whole and in this process: sound conversations, each system call failing in turn, and hostile ones.
 * provider.c is included for serve(), which answers everything that lies in the socket up to a BYE. What
 * AddressSanitizer is asked to do is left out here (must_be_caught.c has it): an injected fault may strike anywhere. */
#define main zc_provider_main
int zc_provider_main(int argc, char **argv);
#include "../provider.c"
#undef main

#include <sys/mman.h>
#include <sys/socket.h>

#include "buffers.h"
#include "fake.h"
#include "fake_drivers.h"
#include "state.h"
#include "tap.h"

uint32_t zc_asan_reports(void) { return 0; }
int zc_asan_built(void) { return 0; }
int zc_asan_forbid(const zc_slot *slot) { return slot ? 0 : 0; }
void zc_asan_allow(const zc_slot *slot) { (void)slot; }

enum { REGION_BYTES = 16384, NONCE = 5, MOST_MESSAGES = 16, TENSORS = 4, CELLS = 8, ROW = 24 };
static char folder[] = "/tmp/zcopy-native-XXXXXX", state_path[64];

typedef struct packet {
    _Alignas(8) char bytes[512];
    size_t count;
    int fd;
} packet;

typedef struct conversation {
    packet packets[MOST_MESSAGES];
    int count, region, pipe[2];
} conversation;

static void *add(conversation *c, uint16_t type, const void *body, size_t body_bytes, const void *tail, size_t tail_bytes,
                 int fd) {
    packet *p = &c->packets[c->count++];
    zc_wire_head head = head_of(type, body_bytes + tail_bytes, (uint32_t)c->count);
    p->count = body_bytes + tail_bytes;
    p->fd = fd;
    memcpy(p->bytes, body, body_bytes);
    memcpy(p->bytes, &head, sizeof head);
    if (tail_bytes) memcpy(p->bytes + body_bytes, tail, tail_bytes);
    return p->bytes;
}

static const zc_run runs[2] = {{1, 2}, {5, 3}};
static zc_tensor tensors[TENSORS];

static void add_begin(conversation *c, uint32_t op, uint32_t inject, uint32_t flags, const char *path) {
    zc_wire_begin begin = {.op = op, .nonce = NONCE, .inject = inject, .flags = flags, .type_k = 1, .type_v = 1};
    add(c, ZC_BEGIN, &begin, sizeof begin, path, path ? strlen(path) + 1 : 0, -1);
}

static void begin_conversation(conversation *c, uint32_t region_flags) {
    *c = (conversation){.region = zc_memfd_new("test", REGION_BYTES, ZC_MEMFD_PLAIN)};
    if (c->region < 0 || pipe2(c->pipe, O_NONBLOCK | O_CLOEXEC)) abort();
    if (region_flags & ZC_REGION_SYNC) sim_dmabuf(c->region);
    for (uint32_t i = 0; i < TENSORS; i++)
        tensors[i] = (zc_tensor){.offset = i * 1024, .cell_stride = ROW + 8, .row_bytes = ROW, .layer = i / 2, .role = i % 2};
    add(c, ZC_HELLO, &(zc_wire_hello){.role = ZC_DECODER}, sizeof(zc_wire_hello), NULL, 0, -1);
    zc_wire_tensors m = {.n_tensors = TENSORS, .n_cells = CELLS, .region_bytes = REGION_BYTES};
    add(c, ZC_TENSORS, &m, sizeof m, tensors, sizeof tensors, -1);
    add(c, ZC_RUNS, &(zc_wire_runs){.count = 1, .total = 2}, sizeof(zc_wire_runs), runs, sizeof *runs, -1);
    add(c, ZC_RUNS, &(zc_wire_runs){.offset = 1, .count = 1, .total = 2}, sizeof(zc_wire_runs), runs + 1, sizeof *runs, -1);
    zc_wire_region region = {.flags = region_flags, .bytes = REGION_BYTES, .inherited_fd = -1};
    add(c, ZC_REGION, &region, sizeof region, NULL, 0, c->region);
}
static void whole_conversation(conversation *c) {
    begin_conversation(c, ZC_REGION_SEALED);
    add_begin(c, ZC_OP_WRITE, ZC_SOUND, ZC_BEGIN_PREREAD, NULL);
    add_begin(c, ZC_OP_SAVE, ZC_SOUND, 0, state_path);
    add(c, ZC_PIPE, &(zc_wire_head){0}, sizeof(zc_wire_head), NULL, 0, c->pipe[1]);
    add_begin(c, ZC_OP_STREAM, ZC_SOUND, 0, NULL);
    add(c, ZC_DROP, &(zc_wire_slot){0}, sizeof(zc_wire_slot), NULL, 0, -1);
}
static void end_conversation(conversation *c) {
    zc_sys_close(c->region);
    close(c->pipe[0]);
    close(c->pipe[1]);
}

typedef struct outcome {
    int status;            /* of serve */
    int answers, refusals; /* that came back */
    int32_t last_refusal;  /* its code */
} outcome;

static void read_answers(int socket, outcome *out) {
    static _Alignas(8) char message[ZC_WIRE_MOST];
    zc_received got;
    while (zc_receive(socket, message, sizeof message, 0, &got) == 0) {
        const zc_wire_head *head = (const void *)message;
        out->answers++;
        if (head->type != ZC_REFUSE) continue;
        out->refusals++;
        out->last_refusal = ((const zc_wire_refuse *)(const void *)message)->code;
    }
}

/* Sends everything and a BYE, lets a new provider answer with its n-th call failing (0: none), and ends it as main does. */
static outcome run(const conversation *c, unsigned failing) {
    int ends[2];
    outcome out = {0};
    zc_wire_head bye = head_of(ZC_BYE, sizeof bye, 99);
    zc_provider *p = calloc(1, sizeof *p);
    if (!p || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends)) abort();
    p->socket = ends[1];
    p->pipe = -1;
    p->kernel = zc_kernel_find("base");
    for (int i = 0; i < ZC_SLOTS; i++) p->slots[i].mapping.fd = -1;
    if (zc_socket_credentials(p->socket)) abort();
    for (int i = 0; i < c->count; i++)
        if (zc_send(ends[0], c->packets[i].bytes, c->packets[i].count, c->packets[i].fd)) abort();
    if (zc_send(ends[0], &bye, sizeof bye, -1)) abort();
    if (failing) fake_fail(NULL, failing, EIO);
    out.status = serve(p);
    if (failing) out.status = fake_hit() ? out.status : 1;
    fake_fail(NULL, 0, 0);
    read_answers(ends[0], &out);
    for (int i = 0; i < ZC_SLOTS; i++) zc_slot_clear(&p->slots[i]);
    if (p->pipe >= 0) zc_sys_close(p->pipe);
    if (p->made[0]) zc_sys_unlink(p->made);
    free(p);
    close(ends[0]);
    close(ends[1]);
    return out;
}

static void sound(void) {
    conversation c;
    zc_layout layout = {REGION_BYTES, tensors, runs, TENSORS, CELLS, 2};
    zc_difference rows, guards;
    whole_conversation(&c);
    outcome out = run(&c, 0);
    ok(out.status == 0 && out.answers == 6 && out.refusals == 0, "a sound conversation: HELLO, MAPPED, three DONE, DROPPED");
    uint8_t *at = mmap(NULL, REGION_BYTES, PROT_READ, MAP_SHARED, c.region, 0);
    zc_rows_check(at, &layout, NONCE, zc_kernel_find(NULL), &rows);
    zc_guard_check(at, &layout, 0, -1, zc_kernel_find(NULL), &guards);
    ok(rows.kind == 0 && guards.kind == 0, "its rows are there and nothing else is written");
    munmap(at, REGION_BYTES);
    char streamed[TENSORS * 5 * ROW + 1];
    is(read(c.pipe[0], streamed, sizeof streamed), TENSORS * 5 * ROW, "its stream is as long as its rows");
    is(access(state_path, F_OK), -1, "its state file is gone with it");
    end_conversation(&c);
}

static void every_call(void) {
    conversation c;
    whole_conversation(&c);
    fake_ledger before = fake_balance();
    unsigned n = 1;
    int good = 1, clean = 1;
    for (; good; n++) {
        outcome out = run(&c, n);
        char drained[4096];
        while (read(c.pipe[0], drained, sizeof drained) > 0) {}
        if (out.status == 1) break; /* no call was left to fail */
        fake_ledger after = fake_balance();
        good = fake_same(&before, &after);
        clean = clean && access(state_path, F_OK);
        if (!good) tap_comment("call %u", n);
    }
    ok(good, "each of a conversation's %u calls failing in turn leaves no descriptor, mapping or memory", n - 1);
    ok(clean, "and no state file");
    end_conversation(&c);
}

static void brackets(void) {
    conversation c;
    int begun = sim_begun(), ended = sim_ended();
    begin_conversation(&c, ZC_REGION_SYNC);
    /* The received descriptor has another number: its ioctls reach the kernel, which says that it is no dma-buf. */
    outcome out = run(&c, 0);
    ok(out.refusals == 1 && out.last_refusal == -ENOTTY, "a region announced as a dma-buf that is none is refused");
    is(sim_begun() - begun, sim_ended() - ended, "no bracket stays open");
    end_conversation(&c);
}

/* Changes one message of a sound conversation, which must then end with `refused` refusals and nothing left. */
#define HOSTILE(refused, name, change)                                                                  \
    do {                                                                                                \
        conversation c;                                                                                 \
        whole_conversation(&c);                                                                         \
        fake_ledger before = fake_balance();                                                            \
        change;                                                                                         \
        outcome out = run(&c, 0);                                                                       \
        fake_ledger after = fake_balance();                                                             \
        ok(out.status == 0 && out.refusals == (refused) && fake_same(&before, &after), name);           \
        end_conversation(&c);                                                                           \
    } while (0)
#define MESSAGE(type, index) ((type *)(void *)c.packets[index].bytes)
#define tensors_message MESSAGE(zc_wire_tensors, 1)
#define first_runs MESSAGE(zc_wire_runs, 2)
#define later_runs MESSAGE(zc_wire_runs, 3)
#define region_message MESSAGE(zc_wire_region, 4)
#define write_message MESSAGE(zc_wire_begin, 5)
#define save MESSAGE(zc_wire_begin, 6)

static void hostile(void) {
    enum { REST = 3 }; /* BEGINs, each refused where there is no slot, region or run to begin on */
    HOSTILE(REST + 2, "RUNS of nothing", {
        first_runs->count = 0;
        first_runs->head.bytes = (uint32_t)(c.packets[2].count = sizeof *first_runs);
    });
    HOSTILE(1, "RUNS of nothing in place of runs: the old ones are neither freed nor lost", {
        first_runs->total = 1;
        later_runs->offset = later_runs->count = 0;
        later_runs->head.bytes = (uint32_t)(c.packets[3].count = sizeof *later_runs);
    });
    HOSTILE(REST + 4, "more tensors announced than sent", tensors_message->n_tensors = UINT32_MAX);
    HOSTILE(REST + 4, "a slot that there is not", tensors_message->slot = 2);
    HOSTILE(REST + 4, "a region smaller than its tensors", tensors_message->region_bytes = 3000);
    HOSTILE(REST + 1, "a region larger than its descriptor", region_message->bytes++);
    HOSTILE(REST + 1, "a region of 2^64 - 1 bytes", region_message->bytes = UINT64_MAX);
    HOSTILE(REST + 1, "a region smaller than what the slot says", region_message->bytes--);
    HOSTILE(REST + 1, "a region that is nothing to be checked", region_message->flags = 0);
    HOSTILE(REST + 1, "a region without its descriptor", c.packets[4].fd = -1);
    HOSTILE(REST + 1, "an inherited descriptor that there is not", {
        c.packets[4].fd = -1;
        region_message->pass = ZC_PASS_INHERIT;
        region_message->inherited_fd = 100000;
    });
    HOSTILE(REST + 1, "runs past the last cell", ((zc_run *)(later_runs + 1))->count = UINT32_MAX);
    HOSTILE(REST + 1, "runs that do not follow", later_runs->offset = UINT32_MAX);
    HOSTILE(REST + 1, "more runs than the message holds", later_runs->count = UINT32_MAX);
    HOSTILE(1, "an unknown operation", write_message->op = 77);
    HOSTILE(1, "a BEGIN on a slot that there is not", write_message->slot = UINT32_MAX);
    HOSTILE(1, "placing rows without a source", write_message->op = ZC_OP_PLACE);
    HOSTILE(1, "loading rows without a path", write_message->op = ZC_OP_LOAD);
    HOSTILE(1, "loading rows from what is no state", {
        save->op = ZC_OP_LOAD;
        memcpy(save + 1, "/dev/null", sizeof "/dev/null");
        save->head.bytes = (uint32_t)(c.packets[6].count = sizeof *save + sizeof "/dev/null");
    });
    HOSTILE(1, "an unknown mistake to make", write_message->inject = 77);
    HOSTILE(1, "a path without its end", c.packets[6].bytes[c.packets[6].count - 1] = 'x');
    HOSTILE(1, "a path that is a folder", {
        memcpy(save + 1, folder, sizeof folder);
        save->head.bytes = (uint32_t)(c.packets[6].count = sizeof *save + sizeof folder);
    });
    HOSTILE(1, "a stray descriptor where none belongs", c.packets[6].fd = c.region; write_message->op = 77);
    HOSTILE(2, "a PIPE that is a file", c.packets[7].fd = c.region);
    HOSTILE(1, "a message that is not ours", MESSAGE(zc_wire_head, 9)->magic = 0);
    HOSTILE(1, "a message shorter than its head", c.packets[9].count = 15);
    HOSTILE(1, "a message longer than it says", c.packets[9].count++);
    HOSTILE(0, "an early DONE: written later, still inside", write_message->inject = ZC_EARLY_DONE);
    HOSTILE(0, "the rows swapped", write_message->inject = ZC_SWAP_KV);
    HOSTILE(0, "a wrong stride", write_message->inject = ZC_STRIDE);
    HOSTILE(0, "a run too long", write_message->inject = ZC_RUN_LONG);
    HOSTILE(0, "nothing written", write_message->inject = ZC_NO_WRITE);
    HOSTILE(0, "a cell short", write_message->inject = ZC_SHORT);
}

static const uint32_t nasty[] = {0, 1, 2, 3, 7, 8, 16, 255, 4096, REGION_BYTES, 1u << 31, UINT32_MAX - 1, UINT32_MAX};

/* Words of messages become others, lengths are wrong, messages come twice, late or not at all. Paths are left alone:
 * a mangled one could name a file of somebody else's. */
static void mangle(conversation *c, uint64_t *random) {
    for (uint32_t changes = 1 + tap_below(random, 4); changes; changes--) {
        packet *p = &c->packets[tap_below(random, (uint32_t)c->count)];
        const zc_wire_head *head = (const void *)p->bytes;
        size_t most = head->type == ZC_BEGIN && p->count > sizeof(zc_wire_begin) ? sizeof(zc_wire_begin) : p->count;
        size_t at = tap_below(random, (uint32_t)most / 4) * 4;
        if (at < 12 && tap_below(random, 4)) continue; /* most messages keep a head that is looked behind */
        uint32_t word = nasty[tap_below(random, sizeof nasty / sizeof *nasty)];
        memcpy(p->bytes + at, &word, 4);
    }
    packet *one = &c->packets[tap_below(random, (uint32_t)c->count)], *other = &c->packets[tap_below(random, (uint32_t)c->count)];
    packet swap = *one;
    if (tap_below(random, 4) == 0) *one = *other;
    if (tap_below(random, 8) == 0) *other = swap;
}

static void fuzzed(int rounds) {
    uint64_t random = 91;
    int good = 1, answered = 0, refused = 0, i = 0;
    for (; good && i < rounds; i++) {
        conversation c;
        whole_conversation(&c);
        fake_ledger before = fake_balance();
        mangle(&c, &random);
        outcome out = run(&c, 0);
        fake_ledger after = fake_balance();
        good = fake_same(&before, &after);
        answered += out.answers - out.refusals;
        refused += out.refusals;
        end_conversation(&c);
    }
    ok(good, "%d mangled conversations leave nothing behind", rounds);
    ok(answered > rounds && refused > rounds, "of their messages %d were answered and %d refused", answered, refused);
}

int main(void) {
    if (!mkdtemp(folder)) return 2;
    snprintf(state_path, sizeof state_path, "%s/state", folder);
    sound();
    every_call();
    brackets();
    hostile();
    fuzzed(3000);
    is(rmdir(folder), 0, "no file is left");
    return tap_done();
}
