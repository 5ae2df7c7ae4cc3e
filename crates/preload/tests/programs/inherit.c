/* Treatment of pages in a child, as set by madvise(2), ends with the memory for which it was set. mremap(2)
   moves it to the new address of this memory. */
#include "check.h"
#include <malloc.h>

#define BYTES (8 * MIB)

static int outcome(pid_t child) {
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

static int is(const char *memory, size_t bytes, char value) {
    for (size_t at = 0; at < bytes; at++) if (memory[at] != value) return 0;
    return 1;
}

/* The wiped pages begin in the middle of an extent, a group of pages that the pager reads together. */
static void wiped(size_t first) {
    char *all = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(all != MAP_FAILED);
    memset(all, 7, BYTES);
    char *start = all + first * PAGE, *end = start + MIB;
    CHECK(madvise(start, MIB, MADV_WIPEONFORK) == 0);
    pid_t child = fork();
    if (child == 0) {
        /* The first accesses are to pages beside the wiped ones. */
        CHECK(is(all, first * PAGE, 7) && is(end, BYTES - MIB - first * PAGE, 7));
        CHECK(is(start, MIB, 0));
        memset(start, 5, PAGE);
        pid_t grandchild = fork();
        if (grandchild == 0) _exit(is(start, MIB, 0) && is(end, PAGE, 7) ? 4 : 1);
        CHECK(outcome(grandchild) == 4);
        CHECK(is(start, PAGE, 5) && is(start + PAGE, MIB - PAGE, 0));
        _exit(3);
    }
    CHECK(outcome(child) == 3 && is(all, BYTES, 7));
    CHECK(munmap(all, BYTES) == 0);
}

/* A new block has the pages of a freed block. The advice about the freed block must not apply to the new block. */
static void freed(int advice) {
    char *block = malloc(BYTES);
    CHECK(block);
    memset(block, 7, BYTES);
    char *page = (char *)(((uintptr_t)block + PAGE) / PAGE * PAGE);
    CHECK(madvise(page, MIB, advice) == 0);
    free(block);
    for (int round = 0; round < 20; round++) {
        char *again = malloc(BYTES);
        CHECK(again);
        memset(again, 9, BYTES);
        pid_t child = fork();
        if (child == 0) _exit(is(again, BYTES, 9) ? 3 : 1);
        CHECK(outcome(child) == 3);
        free(again);
    }
}

/* Checks that a forked child finds `value` in a range of pages, or if `value` is negative, that the range is
   not mapped in the child. */
static void found(const char *start, size_t bytes, int value) {
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        _exit(is(start, bytes, value) ? 3 : 1);
    }
    CHECK(outcome(child) == (value < 0 ? 100 + SIGSEGV : 3));
}

static char *map(size_t bytes, int value) {
    char *all = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(all != MAP_FAILED);
    memset(all, value, bytes);
    return all;
}

/* Replaces pages by new pages at the same addresses: a part of a mapping by mmap(MAP_FIXED), and a whole
   mapping by mremap(MREMAP_FIXED). The advice about the old pages must not apply to the new pages. */
static void replaced(int advice, int other) {
    char *all = map(BYTES, 7), *part = all + MIB + PAGE;
    CHECK(madvise(all, 4 * MIB, advice) == 0 && madvise(all + 4 * MIB, 4 * MIB, other) == 0);
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    CHECK(mmap(part, MIB, PROT_READ | PROT_WRITE, flags, -1, 0) == part);
    CHECK(is_zero(part, MIB));
    memset(part, 9, MIB);
    found(part, MIB, 9);
    found(all + 4 * MIB - PAGE, PAGE, advice == MADV_WIPEONFORK ? 0 : -1);
    found(all + 4 * MIB, PAGE, other == MADV_WIPEONFORK ? 0 : -1);
    char *from = map(BYTES, 5);
    CHECK(mremap(from, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, all) == all);
    found(all, BYTES, 5);
    CHECK(munmap(all, BYTES) == 0);
}

/* Moved pages keep their treatment in a child. Pages that mremap(2) adds are treated like the last page. */
static void moved(int advice, int value) {
    char *to = map(2 * BYTES, 1), *all = map(BYTES, 7);
    CHECK(madvise(all + 6 * MIB, 2 * MIB, advice) == 0);
    CHECK(mremap(all + 6 * MIB, 2 * MIB, 4 * MIB, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
    CHECK(is(to, 2 * MIB, 7) && is_zero(to + 2 * MIB, 2 * MIB));
    memset(to, 8, 4 * MIB);
    found(to, PAGE, value);
    found(to + 4 * MIB - PAGE, PAGE, value);
    found(to + 4 * MIB, 4 * MIB, 1);
    found(all, 6 * MIB, 7);
    /* Shrink the mapping in place, and grow it, in place if there is room. */
    char *grown = mremap(to, 4 * MIB, 2 * MIB, 0);
    CHECK(grown == to);
    CHECK((grown = mremap(to, 2 * MIB, 3 * MIB, MREMAP_MAYMOVE)) != MAP_FAILED);
    memset(grown, 8, 3 * MIB);
    found(grown, PAGE, value);
    found(grown + 3 * MIB - PAGE, PAGE, value);
    CHECK(munmap(grown, 3 * MIB) == 0 && munmap(all, 6 * MIB) == 0);
    CHECK(munmap(to + 4 * MIB, 2 * BYTES - 4 * MIB) == 0);
}

/* Moves pages out of extended memory, to an address that the kernel manages. */
static void moved_out(int advice, int value) {
    char *to = mmap(NULL, 2 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *all = map(BYTES, 7);
    CHECK(to != MAP_FAILED && madvise(all, MIB, advice) == 0);
    CHECK(mremap(all, MIB, MIB, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
    CHECK(is(to, MIB, 7));
    found(to, MIB, value);
    found(all + MIB, BYTES - MIB, 7);
    CHECK(munmap(to, 2 * MIB) == 0 && munmap(all + MIB, BYTES - MIB) == 0);
}

int main(void) {
    /* Make each block a mapping of its own without the pager too. */
    CHECK(mallopt(M_MMAP_THRESHOLD, MIB) == 1);
    wiped(1);
    wiped(3);
    wiped(100);
    freed(MADV_DONTFORK);
    freed(MADV_WIPEONFORK);
    replaced(MADV_DONTFORK, MADV_WIPEONFORK);
    replaced(MADV_WIPEONFORK, MADV_DONTFORK);
    moved(MADV_DONTFORK, -1);
    moved(MADV_WIPEONFORK, 0);
    moved_out(MADV_DONTFORK, -1);
    moved_out(MADV_WIPEONFORK, 0);
    puts("children have what they should");
    return 0;
}
