#include "tap.h"

#include <stdarg.h>
#include <stdio.h>

static int count, failures;

static int line_of(int good, const char *file, int line, const char *format, va_list arguments) {
    printf("%s %d - ", good ? "ok" : "not ok", ++count);
    vprintf(format, arguments);
    printf("\n");
    if (!good) printf("# failed at %s:%d\n", file, line);
    failures += !good;
    fflush(stdout);
    return good;
}

int tap_ok(int good, const char *file, int line, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    line_of(good, file, line, format, arguments);
    va_end(arguments);
    return good;
}

int tap_is(int64_t got, int64_t expected, const char *file, int line, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    line_of(got == expected, file, line, format, arguments);
    va_end(arguments);
    if (got != expected) tap_comment("got %lld, expected %lld", (long long)got, (long long)expected);
    return got == expected;
}

void tap_comment(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    printf("# ");
    vprintf(format, arguments);
    printf("\n");
    va_end(arguments);
    fflush(stdout);
}

void tap_skip(const char *name, const char *reason) {
    printf("ok %d - %s # SKIP %s\n", ++count, name, reason);
    fflush(stdout);
}

int tap_done(void) {
    printf("1..%d\n", count);
    return failures != 0;
}

uint64_t tap_random(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(0x2545F4914F6CDD1D);
}

uint32_t tap_below(uint64_t *state, uint32_t limit) { return (uint32_t)(tap_random(state) >> 32) % limit; }
