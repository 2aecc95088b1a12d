/* Streaming stores that every CPU of this architecture has. */
#if defined(__AVX__)
#error "the base mover must be built without AVX flags: it has to run everywhere"
#endif
#define SYMBOL(name) name##_nt_base
#if defined(__x86_64__)
#include <emmintrin.h>
#define PIECE(to, from, at) _mm_stream_si128((__m128i *)(to) + (at), _mm_loadu_si128((const __m128i *)(from) + (at)))
#define LINE(to, from) \
    (PIECE(to, from, 0), PIECE(to, from, 1), PIECE(to, from, 2), PIECE(to, from, 3))
#include "move_lines.h"
void zc_settled_nt_base(void) { _mm_sfence(); }
#elif defined(__aarch64__)
/* stnp: a pair of registers, stored with the hint that nobody here will read it soon. */
#define LINE(to, from)                                                                                      \
    __asm__ volatile("ldp q0, q1, [%1]\n\tldp q2, q3, [%1, #32]\n\tstnp q0, q1, [%0]\n\tstnp q2, q3, [%0, #32]" \
                     : : "r"(to), "r"(from) : "v0", "v1", "v2", "v3", "memory")
#include "move_lines.h"
void zc_settled_nt_base(void) { __asm__ volatile("dmb ishst" ::: "memory"); }
#else
typedef int zc_no_streaming_stores_here; /* an empty file is no C */
#endif
