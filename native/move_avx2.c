#include <immintrin.h>

#define SYMBOL(name) name##_nt_avx2
#define PIECE(to, from, at) \
    _mm256_stream_si256((__m256i *)(void *)(to) + (at), _mm256_loadu_si256((const __m256i *)(const void *)(from) + (at)))
#define LINE(to, from) (PIECE(to, from, 0), PIECE(to, from, 1))
#include "move_lines.h"

void zc_settled_nt_avx2(void) { _mm_sfence(); }
