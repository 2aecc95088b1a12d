#include "decoder.h"

#include <errno.h>
#include <string.h>

#include "mapping.h"
#include "sys.h"

/* A REFUSE may name an earlier request, one that has no answer when all is well, or 0: a message it could not read. */
static int check(const zc_wire_head *head, const zc_received *got, uint32_t request, uint16_t type, uint64_t bytes) {
    if (got->bytes < sizeof *head || head->magic != ZC_WIRE_MAGIC) return -EBADMSG;
    if (head->version != ZC_WIRE_VERSION) return -EPROTONOSUPPORT;
    if (head->bytes != got->bytes) return -EBADMSG;
    if (got->fd >= 0) return -EPROTO;
    if (head->type == ZC_REFUSE && got->bytes == sizeof(zc_wire_refuse) && head->request <= request) return -EREMOTEIO;
    return head->request == request && head->type == type && (!bytes || got->bytes == bytes) ? 0 : -EBADMSG;
}

int zc_answer(int socket, uint32_t request, uint16_t type, uint64_t bytes, int timeout_ms, void *message,
              zc_received *got) {
    int status = zc_receive(socket, message, ZC_WIRE_MOST, timeout_ms, got);
    if (status < 0) return status;
    status = check(message, got, request, type, bytes);
    if (status == 0) return 0;
    if (got->fd >= 0) zc_sys_close(got->fd);
    got->fd = -1;
    if (status == -EREMOTEIO) ((zc_wire_refuse *)message)->text[ZC_WIRE_TEXT - 1] = 0;
    return status;
}

static int take_rows(const zc_takeover *how, zc_handoff *out) {
    if (!how->source) return 0;
    uint64_t begin = zc_sys_now();
    int64_t copied = zc_rows_copy(how->to, how->target, how->from, how->source);
    out->copy_ns = zc_sys_now() - begin;
    out->copied = copied < 0 ? 0 : (uint64_t)copied;
    return copied < 0 ? (int)copied : 0;
}

int zc_take_over(int socket, uint32_t request, int timeout_ms, const zc_takeover *how, zc_handoff *out) {
    static _Thread_local _Alignas(8) char message[ZC_WIRE_MOST];
    zc_received got;
    memset(out, 0, sizeof *out);
    int status = zc_answer(socket, request, ZC_DONE, sizeof(zc_wire_done), timeout_ms, message, &got);
    if (status == -EREMOTEIO) memcpy(out->refusal, ((zc_wire_refuse *)(void *)message)->text, ZC_WIRE_TEXT);
    if (status < 0) return status;
    out->done = ((zc_wire_done *)(void *)message)->done;
    out->woke_ns = got.at_ns;
    out->has_sender = got.has_sender;
    out->sender_uid = got.sender_uid;

    status = take_rows(how, out);
    if (status < 0 || !how->adoption) return status;
    status = zc_timed_adopt(how->table, how->adoption, &out->adopt_ns);
    uint64_t end = zc_sys_now();
    out->ready_ns = end > out->done.sent_ns ? end - out->done.sent_ns : 0;
    return status;
}

int zc_timed_adopt(zc_cells *table, const zc_adoption *what, uint64_t *ns) {
    uint64_t begin = zc_sys_now();
    int status = zc_cells_adopt(table, what);
    *ns = zc_sys_now() - begin;
    return status;
}

int64_t zc_timed_sync(int fd, unsigned flags) {
    uint64_t begin = zc_sys_now();
    int status = zc_sync(fd, flags);
    return status < 0 ? status : (int64_t)(zc_sys_now() - begin);
}
