/*
 * interleaf.h - memory that a drive extends.
 *
 * A pager keeps large arrays on a drive, with DRAM as their cache, and prefetches pages that the
 * program will touch. A program allocates some arrays from a pager, and gives hints about their
 * use; all other memory is unchanged.
 *
 *     interleaf_options options = { sizeof options, 8ULL << 30, 0, stores, 1 };
 *     interleaf_pager *pager;
 *     double *matrix;
 *     if (interleaf_open(&options, &pager) != INTERLEAF_OK
 *         || interleaf_alloc(pager, bytes, 0, (void **)&matrix) != INTERLEAF_OK) {
 *         fprintf(stderr, "%s\n", interleaf_message());
 *         ...
 *     }
 *
 * Link with -linterleaf_memory. All functions may be called by several threads at once; a region
 * must not be used by other threads while it is freed, nor a pager while it is closed.
 *
 * A forked child does not have the regions: an access to one ends the child. In the child,
 * interleaf_free and interleaf_close of the parent's pager do nothing, and all other calls fail.
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#ifndef INTERLEAF_H
#define INTERLEAF_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A pager: a budget of DRAM, and the stores that hold all other pages. */
typedef struct interleaf_pager interleaf_pager;

/* The result of a call. Later versions may add values. */
typedef enum interleaf_status {
    INTERLEAF_OK = 0,
    /* An argument is invalid. */
    INTERLEAF_BAD_ARGUMENT = 1,
    /* This user has no right to userfaultfd. */
    INTERLEAF_NO_PERMISSION = 2,
    /* The pager does not start for another reason, such as a kernel older than Linux 6.8. */
    INTERLEAF_UNSUPPORTED = 3,
    /* Memory or addresses are exhausted. */
    INTERLEAF_NO_MEMORY = 4,
    /* A store cannot be used. */
    INTERLEAF_STORE = 5
} interleaf_status;

/* The options of a pager. Omitted fields are zero. */
typedef struct interleaf_options {
    /* sizeof(interleaf_options), so that later versions can add fields. */
    size_t size;
    /* The budget of DRAM for all regions, in bytes; 4 MiB at least. */
    uint64_t dram_bytes;
    /* The address space for all regions, in bytes; at most 16 TiB. 0 is the default: 1 TiB. */
    uint64_t address_bytes;
    /* The stores: folders, in which private unnamed files are made, or block devices; several are
     * striped. */
    const char *const *stores;
    size_t store_count;
} interleaf_options;

/* Hints about pages. They change no content, and the pager may ignore them. */
typedef enum interleaf_advice {
    /* No hint: earlier hints are cleared. */
    INTERLEAF_NORMAL = 0,
    /* Random accesses: no page is prefetched. */
    INTERLEAF_RANDOM = 1,
    /* Sequential accesses: pages are prefetched from the first access on. */
    INTERLEAF_SEQUENTIAL = 2,
    /* Accesses soon: the pages are prefetched, as far as the budget allows. */
    INTERLEAF_WILL_NEED = 3,
    /* No accesses soon: the pages are evicted first. */
    INTERLEAF_DONE_WITH = 4
} interleaf_advice;

/* Counters since the pager was opened: numbers of faults, and of pages of 4096 bytes. */
typedef struct interleaf_statistics {
    /* Page faults, and those of them whose page was in DRAM. */
    uint64_t faults;
    uint64_t minor_faults;
    /* Pages that were read from the stores, and written back to them. */
    uint64_t read;
    uint64_t written;
    /* Prefetched pages; of those, the pages that were touched, and the pages that were evicted
     * untouched. */
    uint64_t prefetched;
    uint64_t prefetch_hits;
    uint64_t prefetch_wasted;
} interleaf_statistics;

/* Opens a pager, and stores it in `*pager`. */
interleaf_status interleaf_open(const interleaf_options *options, interleaf_pager **pager);

/* Closes a pager and frees all of its regions. NULL is ignored. */
void interleaf_close(interleaf_pager *pager);

/* Allocates a region of `bytes`, all of them zero, and stores its address in `*memory`. The region
 * is aligned to `align`, a power of two or 0, and at least to a page of 4096 bytes; a region of
 * 2 MiB or more is aligned to at least 2 MiB. */
interleaf_status interleaf_alloc(
    interleaf_pager *pager, size_t bytes, size_t align, void **memory);

/* Frees the region that begins at `memory`. NULL is ignored. */
interleaf_status interleaf_free(interleaf_pager *pager, void *memory);

/* Gives a hint about the pages of a range of a region. */
interleaf_status interleaf_advise(
    interleaf_pager *pager, void *memory, size_t bytes, interleaf_advice advice);

/* Sets a range of a region to zero. The former content is neither kept nor written back. */
interleaf_status interleaf_discard(interleaf_pager *pager, void *memory, size_t bytes);

/* Reads the counters of a pager. `size` is sizeof(interleaf_statistics). */
interleaf_status interleaf_get_statistics(
    interleaf_pager *pager, interleaf_statistics *statistics, size_t size);

/* The message of the last failed call of this thread: the reason, and a hint. The text is valid
 * until the next call of this thread fails. */
const char *interleaf_message(void);

/* The version of the library, as "0.1.0". */
const char *interleaf_version(void);

#ifdef __cplusplus
}
#endif

#endif
