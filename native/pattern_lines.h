/* A fill with streaming stores in whole 64-byte lines; ragged ends and checks are those of a plain kernel. Each file
 * that includes this defines SYMBOL(name), its own names, PLAIN(name), the plain kernel's, and
 * stream(line, lines, word): writes `lines` lines from an aligned `line` on, whose first word is `word`. */
static size_t bytes_to_line(const uint8_t *to, size_t bytes) {
    size_t head = (64 - ((uintptr_t)to & 63)) & 63;
    return head < bytes ? head : bytes;
}

void SYMBOL(zc_fill)(uint8_t *to, size_t bytes, uint64_t base) {
    size_t head = bytes_to_line(to, bytes), lines = (bytes - head) / 64, done = head + lines * 64;
    /* The streamed part must begin on a word of the pattern as well as on a line. */
    if (head % 8 || !lines) {
        PLAIN(zc_fill)(to, bytes, base);
        return;
    }
    if (head) PLAIN(zc_fill)(to, head, base); /* a call for nothing is felt in rows of a line or two */
    stream(to + head, lines, base + (head / 8 + 1) * ZC_STEP);
    if (done < bytes) PLAIN(zc_fill)(to + done, bytes - done, base + done / 8 * ZC_STEP);
}

size_t SYMBOL(zc_check)(const uint8_t *from, size_t bytes, uint64_t base) { return PLAIN(zc_check)(from, bytes, base); }
size_t SYMBOL(zc_check_zero)(const uint8_t *from, size_t bytes) { return PLAIN(zc_check_zero)(from, bytes); }
