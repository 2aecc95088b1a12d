/* Waiting for fences, with a pipe in the place of a dma-buf: what is to be read is a writer that has finished, room to
 * write is nobody at work any more. */
#include "fence.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "fake.h"
#include "mapping.h"
#include "tap.h"

enum { AT_ONCE = 0, SOON = 30, LONG = 5000 };

static int ends[2];

static void fill_pipe(void) {
    static const char page[4096];
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    while (write(ends[1], page, sizeof page) > 0) continue;
}

int main(void) {
    if (pipe2(ends, O_CLOEXEC)) abort();
    ok(zc_wait_fences(ends[0], ZC_SYNC_READ, AT_ONCE) == -ETIMEDOUT, "reading waits for who writes");
    ok(zc_wait_fences(ends[0], 0, SOON) == -ETIMEDOUT, "until the deadline");
    ok(zc_wait_fences(ends[1], ZC_SYNC_WRITE, LONG) >= 0, "nobody at work: writing may begin");
    fill_pipe();
    ok(zc_wait_fences(ends[0], ZC_SYNC_READ, LONG) >= 0, "the writer has finished: reading may begin");
    ok(zc_wait_fences(ends[1], ZC_SYNC_WRITE, AT_ONCE) == -ETIMEDOUT, "writing waits for who reads");
    ok(zc_wait_fences(ends[1], ZC_SYNC_READ | ZC_SYNC_WRITE, AT_ONCE) == -ETIMEDOUT, "both is writing");
    fake_fail("poll_out", 1, EINTR);
    ok(zc_wait_fences(ends[1], ZC_SYNC_WRITE, LONG) == -EINTR, "a signal ends it");
    fake_fail("poll_in", 1, EBADF);
    ok(zc_wait_fences(ends[0], ZC_SYNC_READ, LONG) == -EBADF, "so does an error");
    return tap_done();
}
