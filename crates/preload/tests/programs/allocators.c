/* Several threads allocate and free blocks of all sizes by all functions of an allocator, and check their contents. */
#include "check.h"
#include <malloc.h>
#include <pthread.h>

#ifdef JEMALLOC
#include <jemalloc/jemalloc.h>
#endif
#ifdef MIMALLOC
#include <mimalloc.h>
#endif
#ifdef TCMALLOC
#include <gperftools/tcmalloc.h>
#endif

#define SLOTS 24
#define ROUNDS 300

struct slot {
    char *block;
    size_t bytes;
    uint64_t seed;
};

static size_t next(uint64_t *state) {
    *state = *state * 6364136223846793005UL + 1442695040888963407UL;
    return *state >> 33;
}

/* Sizes below 4 KiB in six of ten cases, below 1 MiB in three, below 6 MiB in one. */
static size_t some_bytes(uint64_t *state) {
    size_t kind = next(state) % 10;
    size_t most = kind < 6 ? 4096 : kind < 9 ? MIB : 6 * MIB;
    return (next(state) % most + 8) / 8 * 8;
}

static char *take(size_t bytes, uint64_t *state) {
    void *block = NULL;
    switch (next(state) % 8) {
    case 0: return calloc(bytes / 8, 8);
    case 1: return memalign(256, bytes);
    case 2: return aligned_alloc(64, (bytes + 63) / 64 * 64);
    case 3: return posix_memalign(&block, 1 << 13, bytes) == 0 ? block : NULL;
    case 4: return realloc(NULL, bytes);
#ifdef JEMALLOC
    case 5: return mallocx(bytes, 0);
    case 6: return mallocx(bytes, MALLOCX_ALIGN(4096) | MALLOCX_ZERO);
#endif
#ifdef MIMALLOC
    case 5: return mi_malloc(bytes);
    case 6: return mi_malloc_aligned(bytes, 4096);
#endif
#ifdef TCMALLOC
    case 5: return tc_malloc(bytes);
    case 6: return tc_memalign(4096, bytes);
#endif
    default: return malloc(bytes);
    }
}

static void give(struct slot *slot, uint64_t *state) {
    size_t kind = next(state) % 3;
#ifdef JEMALLOC
    if (kind == 0) {
        CHECK(sallocx(slot->block, 0) >= slot->bytes);
        sdallocx(slot->block, sallocx(slot->block, 0), 0);
        return;
    }
    if (kind == 1) {
        dallocx(slot->block, 0);
        return;
    }
#endif
#ifdef MIMALLOC
    if (kind == 0) {
        mi_free(slot->block);
        return;
    }
#endif
#ifdef TCMALLOC
    if (kind == 0) {
        tc_free(slot->block);
        return;
    }
#endif
    (void)kind;
    free(slot->block);
}

static void *works(void *argument) {
    uint64_t state = (uintptr_t)argument + 1;
    struct slot slots[SLOTS] = {{0}};
    for (int round = 0; round < ROUNDS; round++) {
        struct slot *slot = &slots[next(&state) % SLOTS];
        if (slot->block && next(&state) % 4 == 0) {
            size_t bytes = some_bytes(&state), least = bytes < slot->bytes ? bytes : slot->bytes;
#ifdef JEMALLOC
            char *block = next(&state) % 2 ? rallocx(slot->block, bytes, 0) : realloc(slot->block, bytes);
#else
            char *block = realloc(slot->block, bytes);
#endif
            CHECK(block && holds(block, least, slot->seed));
            *slot = (struct slot){block, bytes, next(&state)};
        } else if (slot->block) {
            CHECK(holds(slot->block, slot->bytes, slot->seed));
            give(slot, &state);
            *slot = (struct slot){0};
            continue;
        } else {
            size_t bytes = some_bytes(&state);
            *slot = (struct slot){take(bytes, &state), bytes, next(&state)};
            CHECK(slot->block);
        }
        size_t usable = malloc_usable_size(slot->block);
        CHECK(usable >= slot->bytes);
        if (usable < 2 * slot->bytes) slot->bytes = usable / 8 * 8;
        fill(slot->block, slot->bytes, slot->seed);
    }
    for (int at = 0; at < SLOTS; at++) {
        CHECK(holds(slots[at].block, slots[at].bytes, slots[at].seed));
        free(slots[at].block);
    }
    return NULL;
}

/* Allocates more than the budget, in blocks of `each` bytes. */
static void much(size_t bytes, size_t each) {
    size_t count = bytes / each;
    char **blocks = malloc(count * sizeof *blocks);
    for (size_t at = 0; at < count; at++) {
        blocks[at] = malloc(each);
        CHECK(blocks[at]);
        fill(blocks[at], each, at);
    }
    CHECK(is_extended(bytes));
    for (size_t at = 0; at < count; at++) {
        CHECK(holds(blocks[at], each, at));
        free(blocks[at]);
    }
    free(blocks);
}

int main(void) {
    much(80 * MIB, 20 * MIB);
#if defined JEMALLOC || defined MIMALLOC || defined TCMALLOC || defined PRELOADED
    much(80 * MIB, 4096);
#endif
    pthread_t threads[2];
    for (uintptr_t at = 0; at < 2; at++)
        CHECK(pthread_create(&threads[at], NULL, works, (void *)at) == 0);
    for (int at = 0; at < 2; at++) CHECK(pthread_join(threads[at], NULL) == 0);
    char *block = malloc(24 * MIB);
    fill(block, 24 * MIB, 3);
    for (int at = 0; at < 2; at++) {
        pid_t child = at ? _Fork() : fork();
        if (child == 0) {
            if (!holds(block, 24 * MIB, 3)) _exit(1);
            if (at) _exit(9);
            fill(block, 24 * MIB, 4);
            works((void *)7);
            _exit(holds(block, 24 * MIB, 4) ? 9 : 1);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 9);
    }
    CHECK(holds(block, 24 * MIB, 3));
    free(block);
    return 0;
}
