/* One message, at most one descriptor, over a Unix SEQPACKET socket. */
#ifndef ZC_FDPASS_H
#define ZC_FDPASS_H

#include <stddef.h>
#include <stdint.h>

typedef struct zc_received {
    uint64_t bytes;
    uint64_t at_ns; /* CLOCK_MONOTONIC, taken right after the message was there */
    int32_t fd;     /* the caller owns it; -1 where none came */
    int32_t has_sender;
    uint32_t sender_uid, sender_pid; /* as the kernel vouches, where has_sender */
} zc_received;

/* Asks the kernel to attach the sender's credentials to every message. Set it before the peer can send. */
int zc_socket_credentials(int socket);

/* 0 or -errno; fd -1 sends none. -EPIPE where the peer is gone, -EAGAIN where `socket` does not block and the peer has
 * not read what was sent before. */
int zc_send(int socket, const void *message, size_t bytes, int fd);

/* Waits at most timeout_ms (negative: for ever). 0, or
 *   -ETIMEDOUT  nothing came            -EPIPE    the peer is gone
 *   -EMSGSIZE   longer than `room`      -EMFILE   a descriptor was sent and dropped on the way (MSG_CTRUNC)
 *   -EPROTO     more than one descriptor (all are closed)
 *   -EINTR      a signal came: the caller decides whether to go on
 * After a failure no descriptor is left open. */
int zc_receive(int socket, void *message, size_t room, int timeout_ms, zc_received *out);

#endif
