/*
 * interleaf.h - memory that a drive extends.
 *
 * A pager keeps large arrays on a drive, with DRAM as their cache, and brings in what the program
 * will touch before it does. A program places one array explicitly, or some, and says what it knows
 * about their use; all else of it stays where it is.
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
 * must not be used by others while it is freed, nor a pager while it is closed.
 *
 * A child that was forked does not have the regions: what it touches of them ends it.
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#ifndef INTERLEAF_H
#define INTERLEAF_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A pager: a budget of DRAM, and where the rest is. */
typedef struct interleaf_pager interleaf_pager;

/* What became of a call. A later version may have more. */
typedef enum interleaf_status {
    INTERLEAF_OK = 0,
    /* An argument is not what it may be. */
    INTERLEAF_BAD_ARGUMENT = 1,
    /* There is no right to userfaultfd. */
    INTERLEAF_NO_PERMISSION = 2,
    /* The kernel is too old: Linux 6.8 or later has what is needed. */
    INTERLEAF_UNSUPPORTED = 3,
    /* There is not so much memory, or there are not so many addresses. */
    INTERLEAF_NO_MEMORY = 4,
    /* A store cannot be used. */
    INTERLEAF_STORE = 5
} interleaf_status;

/* How a pager is made. What is left out is zero. */
typedef struct interleaf_options {
    /* sizeof(interleaf_options): so that later versions can have more. */
    size_t size;
    /* The budget of DRAM for all regions, in bytes; 4 MiB at least. */
    uint64_t dram_bytes;
    /* The most that all regions may have, in bytes. Default: 1 TiB. */
    uint64_t address_bytes;
    /* Where the rest is: folders, in which unnamed files are made that nobody else can open, or
     * block devices; several are striped. */
    const char *const *stores;
    size_t store_count;
} interleaf_options;

/* What a program knows about pages. Hints change no content, and need not be followed. */
typedef enum interleaf_advice {
    /* Nothing: what was said before is forgotten. */
    INTERLEAF_NORMAL = 0,
    /* They are touched in no order: nothing is brought in beside what is touched. */
    INTERLEAF_RANDOM = 1,
    /* They are touched in order: the first touch is followed at once. */
    INTERLEAF_SEQUENTIAL = 2,
    /* They will be touched soon: they are brought in, as far as there is room. */
    INTERLEAF_WILL_NEED = 3,
    /* They will not be touched soon: they are the first to go. */
    INTERLEAF_DONE_WITH = 4
} interleaf_advice;

/* What was done so far, in pages of 4096 bytes. */
typedef struct interleaf_statistics {
    /* Touches of pages that were not mapped, and how many of those were in DRAM all the same. */
    uint64_t touches;
    uint64_t ready;
    /* Pages that were read from the stores, and written to them. */
    uint64_t read;
    uint64_t written;
    /* Pages that were brought in before they were touched; of those, the ones that were touched,
     * and the ones that were given up untouched. */
    uint64_t foreseen;
    uint64_t used;
    uint64_t wasted;
} interleaf_statistics;

/* Makes a pager, and puts it where `pager` points. */
interleaf_status interleaf_open(const interleaf_options *options, interleaf_pager **pager);

/* Ends a pager and all of its regions. NULL is nothing to close. */
void interleaf_close(interleaf_pager *pager);

/* Makes a region of so many bytes, all of them zero, and puts its address where `memory` points.
 * It is aligned to `align`, a power of two, and to 2 MiB at least; 0 for no wish. */
interleaf_status interleaf_alloc(
    interleaf_pager *pager, size_t bytes, size_t align, void **memory);

/* Frees the region that begins at `memory`. NULL is nothing to free. */
interleaf_status interleaf_free(interleaf_pager *pager, void *memory);

/* Says something about the pages of a part of a region. */
interleaf_status interleaf_advise(
    interleaf_pager *pager, void *memory, size_t bytes, interleaf_advice advice);

/* Makes a part of a region zeros: what was there is of no use, and is neither kept nor written. */
interleaf_status interleaf_discard(interleaf_pager *pager, void *memory, size_t bytes);

/* Says what was done so far. `size` is sizeof(interleaf_statistics). */
interleaf_status interleaf_get_statistics(
    interleaf_pager *pager, interleaf_statistics *statistics, size_t size);

/* Why the last call of this thread that failed did so, in words, and what may help. The text is
 * there until the next call of this thread fails. */
const char *interleaf_message(void);

/* The version of the library, as "0.1.0". */
const char *interleaf_version(void);

#ifdef __cplusplus
}
#endif

#endif
