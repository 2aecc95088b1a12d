/* zcopy-provider: speaks the provider's side of the handoff protocol on the socket that ZCOPY_HANDOFF_FD names.
 *
 * It ends when the decoder says bye or is gone, and takes the state file that it made with it. Nothing is printed:
 * what goes wrong is a REFUSE message, and the exit code. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fdpass.h"
#include "provider.h"
#include "sys.h"

static zc_wire_head head_of(uint16_t type, size_t bytes, uint32_t request) {
    return (zc_wire_head){ZC_WIRE_MAGIC, ZC_WIRE_VERSION, type, (uint32_t)bytes, request};
}

static int refuse(const zc_provider *p, uint32_t request, int code) {
    zc_wire_refuse message = {.head = head_of(ZC_REFUSE, sizeof message, request), .code = code};
    snprintf(message.text, sizeof message.text, "%.140s: %.80s", p->why, strerror(-code));
    return zc_send(p->socket, &message, sizeof message, -1);
}

static int take_hello(zc_provider *p, const void *body, size_t bytes) {
    const zc_wire_hello *m = body;
    if (bytes != sizeof *m || m->role != ZC_DECODER)
        return zc_because(p, -EBADMSG, "a HELLO of %zu bytes that is not a decoder's", bytes);
    zc_wire_hello message = {.head = head_of(ZC_HELLO, sizeof message, m->head.request), .role = ZC_PROVIDER,
                             .pid = (uint32_t)getpid(), .flags = zc_asan_built() ? ZC_HELLO_ASAN : 0};
    snprintf(message.name, sizeof message.name, "zcopy-provider %s", p->kernel->name);
    return zc_send(p->socket, &message, sizeof message, -1);
}

static zc_slot *slot_of(zc_provider *p, uint32_t index) { return index < ZC_SLOTS ? &p->slots[index] : NULL; }

static int take_tensors(zc_provider *p, const void *body, size_t bytes) {
    const zc_wire_tensors *m = body;
    if (bytes < sizeof *m) return zc_because(p, -EBADMSG, "a TENSORS message of %zu bytes", bytes);
    zc_slot *slot = slot_of(p, m->slot);
    size_t room = (bytes - sizeof *m) / sizeof(zc_tensor);
    if (!slot || m->n_tensors == 0 || m->n_tensors != room || bytes != sizeof *m + room * sizeof(zc_tensor))
        return zc_because(p, -EBADMSG, "TENSORS for slot %u announces %u tensors", m->slot, m->n_tensors);
    zc_tensor *tensors = malloc(room * sizeof *tensors);
    if (!tensors) return zc_because(p, -ENOMEM, "TENSORS");
    memcpy(tensors, m + 1, room * sizeof *tensors);
    zc_layout layout = {m->region_bytes, tensors, NULL, m->n_tensors, m->n_cells, 0};
    int status = zc_layout_check(&layout);
    if (status < 0) {
        free(tensors);
        return zc_because(p, status, "the tensors of slot %u do not fit its region", m->slot);
    }
    zc_slot_clear(slot);
    slot->tensors = tensors;
    slot->n_tensors = m->n_tensors;
    slot->n_cells = m->n_cells;
    slot->region_bytes = m->region_bytes;
    return 0;
}

static const char *foreign_fault(int code) {
    switch (code) {
    case -EPERM: return "the region's descriptor is not sealed against shrinking and growing";
    case -ENOTTY: return "the region's descriptor is not a dma-buf";
    case -EOVERFLOW: return "the region's descriptor is smaller than announced";
    case -EMEDIUMTYPE: return "the region is announced neither as sealed nor as a dma-buf";
    default: return "the region's descriptor";
    }
}

static int answer_mapped(zc_provider *p, const zc_wire_region *m, uint64_t received_ns, uint64_t map_ns) {
    zc_stat st = {0};
    zc_sys_fstat(p->slots[m->slot].mapping.fd, &st);
    zc_wire_mapped message = {.head = head_of(ZC_MAPPED, sizeof message, m->head.request), .slot = m->slot,
                              .received_ns = received_ns, .map_ns = map_ns, .dev = st.dev, .ino = st.ino};
    return zc_send(p->socket, &message, sizeof message, -1);
}

/* Takes fd over: it belongs to the slot when this succeeds and is closed when it does not. */
static int map_region(zc_provider *p, const zc_wire_region *m, int fd, uint64_t received_ns) {
    zc_slot *slot = &p->slots[m->slot];
    uint64_t begin = zc_sys_now();
    int status = zc_check_foreign(fd, m->bytes, m->flags & (ZC_REGION_SEALED | ZC_REGION_SYNC));
    if (status < 0) {
        zc_because(p, status, "%s", foreign_fault(status));
    } else if (m->bytes < slot->region_bytes) {
        status = zc_because(p, -ERANGE, "the region is smaller than its tensors");
    } else {
        zc_unmap(&slot->mapping);
        status = zc_map(fd, m->bytes, &slot->mapping);
        if (status < 0) zc_because(p, status, "mapping the region");
    }
    if (status < 0) {
        zc_sys_close(fd);
        return status;
    }
    slot->flags = m->flags;
    return answer_mapped(p, m, received_ns, zc_sys_now() - begin);
}

static int inherited_region(zc_provider *p, const zc_wire_region *m) {
    int fd = zc_sys_fcntl(m->inherited_fd, F_DUPFD_CLOEXEC, 0);
    return fd < 0 ? zc_because(p, fd, "the inherited descriptor %d", m->inherited_fd) : fd;
}

static int take_region(zc_provider *p, const void *body, size_t bytes, const zc_received *got) {
    const zc_wire_region *m = body;
    int fd = got->fd, sound = bytes == sizeof *m && slot_of(p, m->slot) && p->slots[m->slot].tensors;
    if (!sound || (fd >= 0 && m->pass != ZC_PASS_SCM)) {
        if (fd >= 0) zc_sys_close(fd);
        return zc_because(p, -EBADMSG, "a REGION that fits no slot or way of passing");
    }
    if (m->pass == ZC_PASS_INHERIT) fd = inherited_region(p, m);
    else if (fd < 0) return zc_because(p, -EBADF, "REGION came without a descriptor");
    return fd < 0 ? fd : map_region(p, m, fd, got->at_ns);
}

static int take_runs(zc_provider *p, const void *body, size_t bytes) {
    const zc_wire_runs *m = body;
    if (bytes < sizeof *m || bytes != sizeof *m + (size_t)m->count * sizeof(zc_run))
        return zc_because(p, -EBADMSG, "a RUNS message of %zu bytes", bytes);
    zc_slot *slot = slot_of(p, m->slot);
    uint32_t have = slot && m->offset ? slot->n_runs : 0;
    if (!slot || !slot->tensors || m->offset != have || !m->count || m->count > slot->n_cells - have)
        return zc_because(p, -EBADMSG, "RUNS: %u at %u do not follow %u", m->count, m->offset, have);
    zc_run *runs = realloc(slot->runs, ((size_t)have + m->count) * sizeof *runs);
    if (!runs) return zc_because(p, -ENOMEM, "RUNS");
    memcpy(runs + have, m + 1, m->count * sizeof *runs);
    slot->runs = runs;
    slot->n_runs = have + m->count;
    slot->total_runs = m->total;
    zc_layout layout = zc_slot_layout(slot);
    int status = zc_layout_check(&layout);
    if (status == 0) return 0;
    slot->n_runs = 0;
    return zc_because(p, status, "the runs lie outside the cells of slot %u", m->slot);
}

static int answer_done(zc_provider *p, uint32_t request, const zc_done *done) {
    zc_wire_done message = {.head = head_of(ZC_DONE, sizeof message, request), .done = *done};
    message.done.sent_ns = zc_sys_now();
    return zc_send(p->socket, &message, sizeof message, -1);
}

static int begin_check(zc_provider *p, const zc_wire_begin *m, size_t bytes, const char *path) {
    if (bytes < sizeof *m) return zc_because(p, -EBADMSG, "a BEGIN message of %zu bytes", bytes);
    size_t room = bytes - sizeof *m;
    const zc_slot *slot = slot_of(p, m->slot);
    if (!slot || !slot->mapping.at || !slot->n_runs || slot->n_runs != slot->total_runs)
        return zc_because(p, -EBADMSG, "BEGIN on slot %u, which is not ready", m->slot);
    if (room > sizeof p->made || (room && path[room - 1])) return zc_because(p, -EBADMSG, "a path of %zu bytes", room);
    int named = m->op == ZC_OP_SAVE || m->op == ZC_OP_LOAD;
    const char *what = m->op == ZC_OP_SAVE ? "SAVE" : "LOAD";
    return named && room < 2 ? zc_because(p, -EBADMSG, "%s without a path", what) : 0;
}

static int take_begin(zc_provider *p, const void *body, size_t bytes) {
    const zc_wire_begin *m = body;
    const char *path = (const char *)(m + 1);
    int status = begin_check(p, m, bytes, path);
    if (status < 0) return status;
    zc_done done = zc_provider_claim(p, m);
    if (m->inject == ZC_EARLY_DONE) { /* lies now, works when the next message shows that the check is over */
        p->pending.begin = *m;
        memcpy(p->pending.path, path, bytes - sizeof *m);
        p->pending.waiting = 1;
        return answer_done(p, m->head.request, &done);
    }
    status = zc_provider_do(p, m, path, &done);
    return status < 0 ? status : answer_done(p, m->head.request, &done);
}

static void catch_up(zc_provider *p) {
    zc_done unseen;
    if (!p->pending.waiting) return;
    p->pending.waiting = 0;
    zc_provider_do(p, &p->pending.begin, p->pending.path, &unseen);
}

static int take_drop(zc_provider *p, const void *body, size_t bytes) {
    const zc_wire_slot *m = body;
    if (bytes != sizeof *m || !slot_of(p, m->slot)) return zc_because(p, -EBADMSG, "a DROP that fits no slot");
    zc_unmap(&p->slots[m->slot].mapping);
    zc_wire_slot message = {.head = head_of(ZC_DROPPED, sizeof message, m->head.request), .slot = m->slot};
    return zc_send(p->socket, &message, sizeof message, -1);
}

static int take_pipe(zc_provider *p, size_t bytes, int fd) {
    zc_stat st;
    if (fd < 0) return zc_because(p, -EBADF, "PIPE came without a descriptor");
    if (bytes != sizeof(zc_wire_head) || zc_sys_fstat(fd, &st) < 0 || !S_ISFIFO(st.mode)) {
        zc_sys_close(fd);
        return zc_because(p, -EBADMSG, "a PIPE whose descriptor is not a pipe");
    }
    if (p->pipe >= 0) zc_sys_close(p->pipe);
    p->pipe = fd;
    return 0;
}

static int check_head(zc_provider *p, const zc_wire_head *head, const zc_received *got) {
    unsigned long long bytes = got->bytes;
    if (bytes < sizeof *head || head->magic != ZC_WIRE_MAGIC)
        return zc_because(p, -EBADMSG, "a message of %llu bytes that is not ours", bytes);
    if (head->version != ZC_WIRE_VERSION)
        return zc_because(p, -EPROTONOSUPPORT, "protocol version %u, this provider speaks %d", head->version, ZC_WIRE_VERSION);
    if (head->bytes != bytes)
        return zc_because(p, -EBADMSG, "a message of %llu bytes that announces %u", bytes, head->bytes);
    if (got->has_sender && got->sender_uid != getuid()) /* the kernel attaches the real uid */
        return zc_because(p, -EACCES, "the decoder runs as uid %u, this provider as %u", got->sender_uid, getuid());
    return 0;
}

static const char *receive_fault(int code) {
    switch (code) {
    case -EMFILE: return "a message's descriptor was dropped on the way";
    case -EPROTO: return "a message with more than one descriptor";
    case -EMSGSIZE: return "a message longer than the protocol allows";
    default: return "receiving";
    }
}

/* Answers one message. 1 to go on, 0 after a bye, -errno where the peer was refused. */
static int take(zc_provider *p, const void *message, const zc_received *got) {
    const zc_wire_head *head = message;
    int status = check_head(p, head, got);
    int uses_fd = status == 0 && (head->type == ZC_REGION || head->type == ZC_PIPE);
    if (got->fd >= 0 && !uses_fd) zc_sys_close(got->fd);
    if (status < 0) return status;
    catch_up(p);
    switch (head->type) {
    case ZC_HELLO: status = take_hello(p, message, got->bytes); break;
    case ZC_TENSORS: status = take_tensors(p, message, got->bytes); break;
    case ZC_REGION: status = take_region(p, message, got->bytes, got); break;
    case ZC_RUNS: status = take_runs(p, message, got->bytes); break;
    case ZC_BEGIN: status = take_begin(p, message, got->bytes); break;
    case ZC_DROP: status = take_drop(p, message, got->bytes); break;
    case ZC_PIPE: status = take_pipe(p, got->bytes, got->fd); break;
    case ZC_BYE: return 0;
    default: return zc_because(p, -EBADMSG, "message type %u", head->type);
    }
    return status < 0 ? status : 1;
}

static int serve(zc_provider *p) {
    static _Alignas(8) char message[ZC_WIRE_MOST];
    for (;;) {
        zc_received got;
        int status = zc_receive(p->socket, message, sizeof message, -1, &got);
        if (status == -EINTR) continue;
        if (status == -EPIPE) return 0;
        uint32_t request = status == 0 && got.bytes >= sizeof(zc_wire_head) ? ((zc_wire_head *)(void *)message)->request : 0;
        if (status < 0)
            zc_because(p, status, "%s", receive_fault(status));
        else
            status = take(p, message, &got);
        if (status == 0) return 0;
        if (status < 0 && refuse(p, request, status) < 0) return status;
    }
}

static int inherited_socket(void) {
    const char *number = getenv("ZCOPY_HANDOFF_FD");
    char *end = NULL;
    long fd = number ? strtol(number, &end, 10) : -1;
    return number && end != number && !*end && fd >= 0 && fd <= INT_MAX ? (int)fd : -1;
}

int main(int argc, char **argv) {
    static zc_provider p = {.pipe = -1};
    p.socket = inherited_socket();
    for (int i = 0; i < ZC_SLOTS; i++) p.slots[i].mapping.fd = -1;
    p.kernel = zc_kernel_find(argc > 1 ? argv[1] : NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* both come back as errors, and those as sentences */
    signal(SIGINT, SIG_IGN); /* the terminal's Ctrl-C is the decoder's to handle: we end when its socket closes */
    if (!p.kernel || p.socket < 0 || zc_socket_credentials(p.socket) < 0) {
        fprintf(stderr, "zcopy-provider: started by zcopy handoff, with a socket in ZCOPY_HANDOFF_FD; see docs/protocol.md\n");
        return 2;
    }
    int status = serve(&p);
    for (int i = 0; i < ZC_SLOTS; i++) zc_slot_clear(&p.slots[i]);
    if (p.made[0]) zc_sys_unlink(p.made);
    return status < 0;
}
