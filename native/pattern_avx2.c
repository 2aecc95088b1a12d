/* AVX2: the plain loops compiled for it, and a fill with streaming stores in whole 64-byte lines. */
#define SYMBOL(name) name##_avx2
#include "pattern_impl.h"

#include <immintrin.h>

static size_t bytes_to_line(const uint8_t *to, size_t bytes) {
    size_t head = (64 - ((uintptr_t)to & 63)) & 63;
    return head < bytes ? head : bytes;
}

void zc_fill_avx2_nt(uint8_t *to, size_t bytes, uint64_t base) {
    size_t head = bytes_to_line(to, bytes);
    /* The streamed part must begin on a word of the pattern as well as on a line. */
    if (head % 8 || bytes - head < 64) {
        zc_fill_avx2(to, bytes, base);
        return;
    }
    zc_fill_avx2(to, head, base);
    size_t lines = (bytes - head) / 64;
    uint64_t word = base + (head / 8 + 1) * ZC_STEP;
    __m256i low = _mm256_setr_epi64x((int64_t)word, (int64_t)(word + ZC_STEP), (int64_t)(word + 2 * ZC_STEP),
                                     (int64_t)(word + 3 * ZC_STEP));
    const __m256i half = _mm256_set1_epi64x((int64_t)(4 * ZC_STEP)), whole = _mm256_add_epi64(half, half);
    uint8_t *line = to + head;
    for (size_t i = 0; i < lines; i++, line += 64) {
        _mm256_stream_si256((__m256i *)line, low);
        _mm256_stream_si256((__m256i *)(line + 32), _mm256_add_epi64(low, half));
        low = _mm256_add_epi64(low, whole);
    }
    size_t done = head + lines * 64;
    for (size_t at = done; at < bytes; at++) to[at] = pattern_byte(base, at);
}

void zc_settle_avx2_nt(void) { _mm_sfence(); }

size_t zc_check_avx2_nt(const uint8_t *from, size_t bytes, uint64_t base) { return zc_check_avx2(from, bytes, base); }
size_t zc_check_zero_avx2_nt(const uint8_t *from, size_t bytes) { return zc_check_zero_avx2(from, bytes); }
