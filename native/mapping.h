/* One owner for a descriptor and its mapping, and the brackets that a dma-buf's CPU access needs. */
#ifndef ZC_MAPPING_H
#define ZC_MAPPING_H

#include <stdint.h>

typedef struct zc_mapping {
    void *at;
    uint64_t bytes;
    int32_t fd; /* -1 where the memory has none */
} zc_mapping;

/* Maps bytes of fd, shared and writable, from its start; fd -1 maps private anonymous memory, as malloc has it. Takes fd
 * over when it succeeds. */
int zc_map(int fd, uint64_t bytes, zc_mapping *out);
/* Anonymous memory from the pool of 2 MiB pages (hugetlb): -ENOMEM where the pool has not enough. */
int zc_map_hugetlb(uint64_t bytes, zc_mapping *out);
/* Safe on half-built and on already closed ones. */
void zc_unmap(zc_mapping *mapping);

enum { ZC_CHECK_SEALED = 1, ZC_CHECK_DMABUF = 2 };
/* What an importer checks before it maps a foreign descriptor: 0, or
 *   -EOVERFLOW  smaller than `bytes`
 *   -EPERM      asked to be sealed, and not sealed against SHRINK and GROW (a shrinking file kills us by SIGBUS)
 *   -ENOTTY     asked to be a dma-buf, and not one
 *   -EMEDIUMTYPE  none of the kinds that can be checked */
int zc_check_foreign(int fd, uint64_t bytes, unsigned checks);

enum { ZC_SYNC_READ = 1, ZC_SYNC_WRITE = 2, ZC_SYNC_END = 4 };
/* DMA_BUF_IOCTL_SYNC; 0 or -errno (-ENOTTY where fd is no dma-buf). */
int zc_sync(int fd, unsigned flags);

/* Brings every page in, writable, as the exporter: 0 or -errno (-EINVAL where the kernel or the kind cannot). */
int zc_populate(const zc_mapping *mapping);
/* Asks for 2 MiB pages before the first touch, / gathers what is there into them afterwards (Linux 6.1, no privilege). */
int zc_advise_huge(const zc_mapping *mapping);
int zc_collapse(const zc_mapping *mapping);
/* The nonzero seals of fd, or -errno. */
int zc_seals(int fd);

#endif
