#include "fill.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "sys.h"

enum { WAITING, GO, GIVEN_UP };

typedef struct team {
    const zc_fill_job *job;
    atomic_int start;
    atomic_uint ready, done;
} team;

typedef struct member {
    team *of;
    uint32_t number;
    pthread_t thread;
    int status; /* of its pinning */
} member;

static int pin(const zc_fill_job *job, uint32_t number) {
    if (!job->cpus) return 0;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((unsigned)job->cpus[number], &set);
    return -pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

/* Slices end on page borders, so that no two threads write to one line. */
static void work(const zc_fill_job *job, uint32_t number) {
    const uint64_t page = 4096;
    uint64_t slice = (job->bytes / job->threads + page - 1) / page * page;
    uint64_t from = slice * number < job->bytes ? slice * number : job->bytes;
    uint64_t to = number + 1 == job->threads || from + slice > job->bytes ? job->bytes : from + slice;
    for (uint32_t i = 0; i < job->repeat; i++) {
        job->mover->move(job->to + from, job->from + from, to - from);
        job->mover->settle();
    }
}

static void breathe(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void *serve(void *context) {
    member *m = context;
    team *t = m->of;
    m->status = pin(t->job, m->number);
    atomic_fetch_add(&t->ready, 1);
    int start;
    while ((start = atomic_load_explicit(&t->start, memory_order_acquire)) == WAITING) breathe();
    if (start == GO) work(t->job, m->number);
    atomic_fetch_add(&t->done, 1);
    return NULL;
}

/* All members are there, or nobody begins. */
static int run(team *t, member *members, uint32_t others, int status, uint64_t *ns) {
    while (atomic_load(&t->ready) < others) sched_yield();
    for (uint32_t i = 0; status == 0 && i < others; i++) status = members[i].status;
    uint64_t begin = zc_sys_now();
    atomic_store_explicit(&t->start, status == 0 ? GO : GIVEN_UP, memory_order_release);
    if (status == 0) work(t->job, 0);
    while (atomic_load(&t->done) < others) breathe();
    *ns = zc_sys_now() - begin;
    for (uint32_t i = 0; i < others; i++) pthread_join(members[i].thread, NULL);
    return status;
}

int zc_fill(const zc_fill_job *job, uint64_t *ns) {
    team t = {.job = job};
    member members[ZC_MOST_THREADS];
    cpu_set_t before;
    if (!job->threads || job->threads > ZC_MOST_THREADS || !job->repeat) return -EINVAL;
    if (pthread_getaffinity_np(pthread_self(), sizeof before, &before)) return -EINVAL;
    uint32_t others = 0;
    int status = 0;
    while (status == 0 && others + 1 < job->threads) {
        members[others] = (member){.of = &t, .number = others + 1};
        status = -pthread_create(&members[others].thread, NULL, serve, &members[others]);
        others += status == 0;
    }
    if (status == 0) status = pin(job, 0);
    status = run(&t, members, others, status, ns);
    if (job->cpus) pthread_setaffinity_np(pthread_self(), sizeof before, &before);
    return status;
}

void zc_touch(uint8_t *at, uint64_t bytes, uint64_t page, uint64_t *ns, uint64_t *faults) {
    uint64_t before = zc_sys_minor_faults(), begin = zc_sys_now();
    for (uint64_t i = 0; i < bytes; i += page) *(volatile uint8_t *)(at + i) = 1;
    *ns = zc_sys_now() - begin;
    *faults = zc_sys_minor_faults() - before;
}

uint64_t zc_read_through(const uint8_t *from, uint64_t bytes, uint64_t *sum) {
    uint64_t begin = zc_sys_now(), a = 0, b = 0, c = 0, d = 0;
    for (uint64_t i = 0; i + 64 <= bytes; i += 64) {
        const uint64_t *line = (const uint64_t *)(const void *)(from + i);
        a += line[0] ^ line[4];
        b += line[1] ^ line[5];
        c += line[2] ^ line[6];
        d += line[3] ^ line[7];
    }
    *sum = a + b + c + d;
    return zc_sys_now() - begin;
}
