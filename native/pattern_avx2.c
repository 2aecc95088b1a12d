/* AVX2: the plain loops compiled for it, and a fill with streaming stores. */
#define SYMBOL(name) name##_avx2
#include "pattern_impl.h"

#include <immintrin.h>

static void stream(uint8_t *line, size_t lines, uint64_t word) {
    __m256i low = _mm256_setr_epi64x((int64_t)word, (int64_t)(word + ZC_STEP), (int64_t)(word + 2 * ZC_STEP),
                                     (int64_t)(word + 3 * ZC_STEP));
    const __m256i half = _mm256_set1_epi64x((int64_t)(4 * ZC_STEP)), whole = _mm256_add_epi64(half, half);
    for (; lines; lines--, line += 64) {
        _mm256_stream_si256((__m256i *)line, low);
        _mm256_stream_si256((__m256i *)(line + 32), _mm256_add_epi64(low, half));
        low = _mm256_add_epi64(low, whole);
    }
}

#undef SYMBOL
#define SYMBOL(name) name##_avx2_nt
#define PLAIN(name) name##_avx2
#include "pattern_lines.h"

void zc_settle_avx2_nt(void) { _mm_sfence(); }
