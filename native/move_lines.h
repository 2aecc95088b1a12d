/* Streaming in whole 64-byte lines: a partial line of a write-combining stream costs several times its bytes, so the
 * ragged ends go by ordinary stores. Included once per instruction set, which defines LINE(to, from) and SYMBOL. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "movers.h"

void SYMBOL(zc_move)(uint8_t *to, const uint8_t *from, size_t bytes) {
    size_t head = (64 - ((uintptr_t)to & 63)) & 63;
    if (bytes < head + 64) {
        memcpy(to, from, bytes);
        return;
    }
    memcpy(to, from, head);
    size_t at = head, ends = head + (bytes - head) / 64 * 64;
    for (; at + 256 <= ends; at += 256) {
        LINE(to + at, from + at);
        LINE(to + at + 64, from + at + 64);
        LINE(to + at + 128, from + at + 128);
        LINE(to + at + 192, from + at + 192);
    }
    for (; at < ends; at += 64) LINE(to + at, from + at);
    memcpy(to + ends, from + ends, bytes - ends);
}
