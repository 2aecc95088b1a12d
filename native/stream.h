/* Rows out of a pipe. */
#ifndef ZC_STREAM_H
#define ZC_STREAM_H

#include "rows.h"

/* Reads every row of the request, in the order in which a provider streams a packed source, straight into place.
 * `pipe` must not block; `socket` is the provider's, whose "done" ends the wait for rows that were never written.
 * The bytes read, -ENODATA where the stream ended early, -ETIMEDOUT where it is not complete timeout_ms after the call, or -errno. */
int64_t zc_rows_receive(int pipe, int socket, int timeout_ms, uint8_t *region, const zc_layout *layout);

#endif
