/* mlockall(MCL_FUTURE) before or after the first extended allocation, and pages that are locked until they
   are freed or replaced. */
#include "check.h"

#define BYTES (32 * MIB)

/* Locks a part of each block, and frees the block. The parts together exceed the limit of locked pages. */
static void freed(void) {
    for (int round = 0; round < 20; round++) {
        char *block = malloc(12 * MIB);
        CHECK(block);
        CHECK(mlock(block + round % 5 * 2 * MIB, 2 * MIB) == 0);
        fill(block, 12 * MIB, round);
        CHECK(holds(block, 12 * MIB, round));
        free(block);
    }
}

/* The locks end when pages are replaced, and move with their pages to another address. */
static void replaced(void) {
    int both = PROT_READ | PROT_WRITE, anonymous = MAP_PRIVATE | MAP_ANONYMOUS;
    for (int round = 0; round < 20; round++) {
        char *block = mmap(NULL, 12 * MIB, both, anonymous, -1, 0);
        char *other = mmap(NULL, 12 * MIB, both, anonymous, -1, 0);
        CHECK(block != MAP_FAILED && other != MAP_FAILED);
        CHECK(mlock(block, 2 * MIB) == 0 && mlock(other, 2 * MIB) == 0);
        fill(block, 12 * MIB, round);
        CHECK(mmap(other, 12 * MIB, both, anonymous | MAP_FIXED, -1, 0) == other);
        CHECK(mremap(block, 2 * MIB, 2 * MIB, MREMAP_MAYMOVE | MREMAP_FIXED, other) == other);
        CHECK(holds(other, 2 * MIB, round) && is_zero(other + 2 * MIB, 10 * MIB));
        CHECK(mmap(other, 12 * MIB, both, anonymous | MAP_FIXED, -1, 0) == other);
        CHECK(munmap(block + 2 * MIB, 10 * MIB) == 0);
        CHECK(is_zero(other, 12 * MIB));
    }
}

/* A child inherits no locks, and may lock as many pages as its parent. */
static void child(void) {
    char *block = malloc(32 * MIB);
    CHECK(block);
    fill(block, 32 * MIB, 1);
    CHECK(mlock(block, 6 * MIB) == 0);
    pid_t child = fork();
    if (child == 0) {
        CHECK(mlock(block + 16 * MIB, 6 * MIB) == 0 && holds(block, 32 * MIB, 1));
        _exit(3);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 3);
    free(block);
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    if (strcmp(arguments[1], "freed") == 0) {
        freed();
        puts("locked again");
        return 0;
    }
    if (strcmp(arguments[1], "replaced") == 0) {
        replaced();
        puts("locked again");
        return 0;
    }
    if (strcmp(arguments[1], "child") == 0) {
        child();
        puts("locked by both");
        return 0;
    }
    int is_before = strcmp(arguments[1], "before") == 0, both = PROT_READ | PROT_WRITE;
    if (is_before) CHECK(mlockall(MCL_FUTURE) == 0);
    char *all = mmap(NULL, BYTES, both, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(all != MAP_FAILED);
    fill(all, BYTES, 1);
    if (!is_before) CHECK(mlockall(MCL_FUTURE) == 0);
    /* Map shared memory in the middle of the array, and then private memory again. */
    int over = MAP_ANONYMOUS | MAP_FIXED;
    CHECK(mmap(all + 8 * MIB, 8 * MIB, both, MAP_SHARED | over, -1, 0) == all + 8 * MIB);
    fill(all + 8 * MIB, 8 * MIB, 2);
    CHECK(mmap(all + 8 * MIB, 8 * MIB, both, MAP_PRIVATE | over, -1, 0) == all + 8 * MIB);
    char *more = malloc(BYTES);
    CHECK(more);
    for (int round = 0; round < 3; round++) {
        fill(all, BYTES, round);
        fill(more, BYTES, round + 1);
        CHECK(holds(all, BYTES, round) && holds(more, BYTES, round + 1));
    }
    CHECK(munlockall() == 0);
    puts("all is there");
    return 0;
}
