/* One message and at most one descriptor over a real socket pair: what a careless or hostile peer may send. */
#include "fdpass.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "fake.h"
#include "sys.h"
#include "tap.h"

enum { SOON = 50, LONG = 5000, MANY = 16 };

typedef struct pair {
    int ours, theirs;
} pair;
static pair connected(int credentials) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends)) abort();
    if (credentials && zc_socket_credentials(ends[0])) abort();
    return (pair){ends[0], ends[1]};
}
static void disconnect(pair p) {
    close(p.ours);
    close(p.theirs);
}

/* What zc_send never does: `count` descriptors in one message. */
static void send_many(int socket, int fd, int count) {
    union {
        char bytes[CMSG_SPACE(MANY * sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    char text[] = "hello";
    struct iovec piece = {text, sizeof text};
    struct msghdr header = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control.bytes,
                            .msg_controllen = CMSG_SPACE((size_t)count * sizeof(int))};
    struct cmsghdr *c = CMSG_FIRSTHDR(&header);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
    for (int i = 0; i < count; i++) memcpy(CMSG_DATA(c) + (size_t)i * sizeof fd, &fd, sizeof fd);
    if (sendmsg(socket, &header, 0) < 0) abort();
}

static int same_file(int a, int b) {
    struct stat left, right;
    return !fstat(a, &left) && !fstat(b, &right) && left.st_ino == right.st_ino && left.st_dev == right.st_dev;
}

static void one_descriptor(int credentials, const char *what) {
    char room[16] = {0};
    zc_received got;
    pair p = connected(credentials);
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    is(zc_send(p.theirs, "hello", 6, fd), 0, "%s: sent", what);
    is(zc_receive(p.ours, room, sizeof room, LONG, &got), 0, "%s: received", what);
    ok(got.bytes == 6 && !strcmp(room, "hello") && got.at_ns, "%s: the message and when it was there", what);
    ok(got.fd >= 0 && got.fd != fd && same_file(got.fd, fd), "%s: the descriptor", what);
    ok(fcntl(got.fd, F_GETFD) & FD_CLOEXEC, "%s: closed on exec", what);
    ok(got.has_sender == credentials && (!credentials || (got.sender_uid == getuid() && got.sender_pid == (uint32_t)getpid())),
       "%s: the sender, where asked", what);
    close(got.fd);
    is(zc_send(p.theirs, "bare", 5, -1), 0, "%s: sent without one", what);
    ok(zc_receive(p.ours, room, sizeof room, LONG, &got) == 0 && got.fd == -1, "%s: none came", what);
    close(fd);
    disconnect(p);
}

static int close_all(struct msghdr *header) {
    int closed = 0, fd;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c))
        for (size_t at = CMSG_LEN(0); c->cmsg_type == SCM_RIGHTS && at < c->cmsg_len; at += sizeof fd, closed++) {
            memcpy(&fd, (char *)c + at, sizeof fd);
            close(fd);
        }
    return closed;
}

/* Descriptors that a receive in as much room as fdpass.c has leaves open without telling anyone. The kernel leaves
 * none; QEMU's user mode asks it with more room than the program gave, and drops what then does not fit. */
static int64_t lost_below(int credentials, int count) {
    union {
        char bytes[CMSG_SPACE(8 * sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
        struct cmsghdr align;
    } control;
    char room[16];
    struct iovec piece = {room, sizeof room};
    struct msghdr header = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control.bytes,
                            .msg_controllen = sizeof control.bytes};
    pair p = connected(credentials);
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    send_many(p.theirs, fd, count);
    int64_t before = fake_balance().of_kernel;
    if (recvmsg(p.ours, &header, 0) < 0 || !close_all(&header)) abort();
    int64_t lost = fake_balance().of_kernel - before;
    close(fd);
    disconnect(p);
    return lost;
}

static void too_many(int credentials, int count) {
    int64_t lost = lost_below(credentials, count);
    char room[16];
    zc_received got;
    pair p = connected(credentials);
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    fake_ledger before = fake_balance();
    send_many(p.theirs, fd, count);
    int status = zc_receive(p.ours, room, sizeof room, LONG, &got);
    fake_ledger after = fake_balance();
    after.of_kernel -= lost;
    ok((status == -EPROTO || status == -EMFILE) && got.fd == -1 && fake_same(&before, &after),
       "%d descriptors %s credentials: refused, all closed", count, credentials ? "behind" : "without");
    close(fd);
    disconnect(p);
}

/* With `spare` numbers left below the limit. */
static void at_the_limit(int credentials, int count, int spare) {
    char room[16];
    zc_received got;
    pair p = connected(credentials);
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC), next = dup(fd);
    struct rlimit old, none;
    close(next);
    if (getrlimit(RLIMIT_NOFILE, &old)) abort();
    send_many(p.theirs, fd, count);
    fake_ledger before = fake_balance();
    none = (struct rlimit){(rlim_t)(next + spare), old.rlim_max};
    if (setrlimit(RLIMIT_NOFILE, &none)) abort();
    int status = zc_receive(p.ours, room, sizeof room, LONG, &got);
    if (setrlimit(RLIMIT_NOFILE, &old)) abort();
    fake_ledger after = fake_balance();
    ok(status == -EMFILE && got.fd == -1 && fake_same(&before, &after),
       "%d of %d descriptors fit under RLIMIT_NOFILE: said so, none kept", spare, count);
    close(fd);
    disconnect(p);
}

static void sizes(void) {
    char big[64] = {0}, room[16];
    zc_received got;
    pair p = connected(1);
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    fake_ledger before = fake_balance();
    zc_send(p.theirs, big, sizeof big, fd);
    is(zc_receive(p.ours, room, sizeof room, LONG, &got), -EMSGSIZE, "longer than the room: refused");
    fake_ledger after = fake_balance();
    ok(got.fd == -1 && fake_same(&before, &after), "and its descriptor closed");
    zc_send(p.theirs, big, sizeof room, -1);
    ok(zc_receive(p.ours, room, sizeof room, LONG, &got) == 0 && got.bytes == sizeof room, "exactly the room: taken");
    close(fd);
    disconnect(p);
}

static void gone(void) {
    char room[16];
    zc_received got;
    pair p = connected(1);
    zc_send(p.theirs, "last", 5, -1);
    zc_send(p.ours, "unread", 7, -1);
    close(p.theirs);
    is(zc_send(p.ours, "x", 1, -1), -EPIPE, "sending to a peer that is gone");
    int status = zc_receive(p.ours, room, sizeof room, LONG, &got);
    ok(status == 0 && got.bytes == 5, "its last words are still there");
    is(zc_receive(p.ours, room, sizeof room, LONG, &got), -EPIPE, "then it is gone");
    is(zc_receive(p.ours, room, sizeof room, -1, &got), -EPIPE, "however often one asks");
    close(p.ours);
}

static void on_alarm(int number) { (void)number; }

static void waiting(void) {
    char room[16];
    zc_received got;
    pair p = connected(1);
    is(zc_receive(p.ours, room, sizeof room, 0, &got), -ETIMEDOUT, "nothing there, no patience");
    is(zc_receive(p.ours, room, sizeof room, SOON, &got), -ETIMEDOUT, "nothing there in time");
    struct sigaction handler = {.sa_handler = on_alarm};
    struct itimerval soon = {.it_value = {.tv_usec = SOON * 1000}};
    sigaction(SIGALRM, &handler, NULL);
    setitimer(ITIMER_REAL, &soon, NULL);
    is(zc_receive(p.ours, room, sizeof room, LONG, &got), -EINTR, "a signal is the caller's to judge");
    fake_fail("sendmsg", 1, EINTR);
    ok(zc_send(p.theirs, "again", 6, -1) == 0 && fake_hit(), "a signal while sending is not an error");
    fake_fail(NULL, 0, 0);
    ok(zc_receive(p.ours, room, sizeof room, LONG, &got) == 0 && !strcmp(room, "again"), "and the message goes out once");
    is(zc_receive(p.ours, room, sizeof room, 0, &got), -ETIMEDOUT, "only once");
    disconnect(p);
}

static int send_and_receive(void *context) {
    char room[16];
    zc_received got = {.fd = -1};
    pair p = connected(0);
    int status = zc_socket_credentials(p.ours);
    if (status == 0) status = zc_send(p.theirs, "hello", 6, *(int *)context);
    if (status == 0) status = zc_receive(p.ours, room, sizeof room, LONG, &got);
    if (got.fd >= 0) zc_sys_close(got.fd);
    disconnect(p);
    return status;
}

int main(void) {
    one_descriptor(0, "without credentials");
    one_descriptor(1, "with credentials");
    for (int count = 2; count <= MANY; count++)
        for (int credentials = 0; credentials < 2; credentials++) too_many(credentials, count);
    at_the_limit(0, 1, 0);
    at_the_limit(1, 1, 0);
    at_the_limit(1, 3, 0);
    at_the_limit(1, 3, 1);
    at_the_limit(1, 3, 2);
    sizes();
    gone();
    waiting();
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    fake_sweep("sending and receiving a descriptor", send_and_receive, &fd, 0);
    close(fd);
    return tap_done();
}
