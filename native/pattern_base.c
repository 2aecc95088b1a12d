/* The kernel every CPU of this architecture can run. */
#if defined(__AVX__)
#error "the base kernel must be built without AVX flags: it has to run everywhere"
#endif
#define SYMBOL(name) name##_base
#include "pattern_impl.h"
