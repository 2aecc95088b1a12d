/* Test Anything Protocol, as much of it as these programs need. Every line is flushed: a crash loses none. */
#ifndef ZC_TAP_H
#define ZC_TAP_H

#include <stdint.h>

/* One test each; both give back whether it passed. `is` compares integers and shows both. */
#define ok(good, ...) tap_ok((good) != 0, __FILE__, __LINE__, __VA_ARGS__)
#define is(got, expected, ...) tap_is((int64_t)(got), (int64_t)(expected), __FILE__, __LINE__, __VA_ARGS__)

__attribute__((format(printf, 4, 5))) int tap_ok(int good, const char *file, int line, const char *format, ...);
__attribute__((format(printf, 5, 6))) int tap_is(int64_t got, int64_t expected, const char *file, int line,
                                                 const char *format, ...);
__attribute__((format(printf, 1, 2))) void tap_comment(const char *format, ...);
void tap_skip(const char *name, const char *reason);
int tap_done(void); /* the plan, last: the program's exit code */

/* xorshift64* (Vigna 2016) from a fixed seed: the same numbers on every run, so that a failure can be repeated. */
uint64_t tap_random(uint64_t *state);
uint32_t tap_below(uint64_t *state, uint32_t limit);

#endif
