#include "fdpass.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "sys.h"

enum { MOST_FDS = 8 }; /* room for a peer that sends too many: they must be closed, not lost */

typedef union control {
    char bytes[CMSG_SPACE(MOST_FDS * sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
    struct cmsghdr align;
} control;

int zc_socket_credentials(int socket) {
    const int on = 1;
    return zc_sys_setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
}

int zc_send(int socket, const void *message, size_t bytes, int fd) {
    struct iovec piece = {(void *)(uintptr_t)message, bytes};
    control room = {{0}};
    struct msghdr header = {.msg_iov = &piece, .msg_iovlen = 1};
    if (fd >= 0) {
        header.msg_control = room.bytes;
        header.msg_controllen = CMSG_SPACE(sizeof fd);
        struct cmsghdr *c = CMSG_FIRSTHDR(&header);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(c), &fd, sizeof fd);
    }
    int64_t sent;
    do {
        sent = zc_sys_sendmsg(socket, &header, 0);
    } while (sent == -EINTR);
    if (sent == -ECONNRESET || sent == -ENOTCONN) return -EPIPE;
    return sent < 0 ? (int)sent : (size_t)sent == bytes ? 0 : -EMSGSIZE;
}

/* As many as the whole of `control` can hold: where no credentials come, their room is descriptors' too. */
typedef struct found {
    int fds[sizeof(control) / sizeof(int)];
    int count;
} found;

static void take_rights(const struct cmsghdr *c, found *f) {
    size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; i++) {
        int fd;
        memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
        f->fds[f->count++] = fd;
    }
}

static void take_sender(const struct cmsghdr *c, zc_received *out) {
    struct ucred sender;
    memcpy(&sender, CMSG_DATA(c), sizeof sender);
    out->has_sender = 1;
    out->sender_uid = sender.uid;
    out->sender_pid = (uint32_t)sender.pid;
}

/* Every control message is looked at: credentials may come first. */
static void walk_control(struct msghdr *header, found *f, zc_received *out) {
    for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c)) {
        if (c->cmsg_level != SOL_SOCKET) continue;
        if (c->cmsg_type == SCM_RIGHTS) take_rights(c, f);
        if (c->cmsg_type == SCM_CREDENTIALS) take_sender(c, out);
    }
}

static int verdict(const struct msghdr *header, int64_t bytes, const found *f) {
    if (bytes == 0) return -EPIPE;
    if (header->msg_flags & MSG_CTRUNC) return -EMFILE;
    if (header->msg_flags & MSG_TRUNC) return -EMSGSIZE;
    return f->count > 1 ? -EPROTO : 0;
}

int zc_receive(int socket, void *message, size_t room, int timeout_ms, zc_received *out) {
    struct iovec piece = {message, room};
    control space;
    struct msghdr header = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = space.bytes,
                            .msg_controllen = sizeof space.bytes};
    *out = (zc_received){.fd = -1};
    int ready = zc_sys_poll_in(socket, timeout_ms);
    if (ready <= 0) return ready < 0 ? ready : -ETIMEDOUT;
    int64_t bytes = zc_sys_recvmsg(socket, &header, MSG_DONTWAIT);
    /* A peer that closed before it read all of ours: said once, ahead of what it may have sent before. */
    if (bytes == -ECONNRESET) bytes = zc_sys_recvmsg(socket, &header, MSG_DONTWAIT);
    out->at_ns = zc_sys_now();
    if (bytes < 0) return bytes == -ECONNRESET ? -EPIPE : (int)bytes;

    found f = {.count = 0};
    walk_control(&header, &f, out);
    int status = verdict(&header, bytes, &f);
    if (status < 0) {
        while (f.count) zc_sys_close(f.fds[--f.count]);
        return status;
    }
    out->bytes = (uint64_t)bytes;
    if (f.count) out->fd = f.fds[0];
    return 0;
}
