/* Treatment of pages in a child, as set by madvise(2), ends with the memory for which it was set. */
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

/* Wiped pages begin within a group of pages that are read together. */
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

/* The pages of a freed block are those of a new block: the advice about the freed block is gone. */
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

int main(void) {
    /* Without the pager, too, each block is a mapping of its own. */
    CHECK(mallopt(M_MMAP_THRESHOLD, MIB) == 1);
    wiped(1);
    wiped(3);
    wiped(100);
    freed(MADV_DONTFORK);
    freed(MADV_WIPEONFORK);
    puts("children have what they should");
    return 0;
}
