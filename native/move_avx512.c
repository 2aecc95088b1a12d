#include <immintrin.h>

#define SYMBOL(name) name##_nt_avx512
#define LINE(to, from) _mm512_stream_si512((__m512i *)(void *)(to), _mm512_loadu_si512((const void *)(from)))
#include "move_lines.h"

void zc_settled_nt_avx512(void) { _mm_sfence(); }
