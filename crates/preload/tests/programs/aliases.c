/* A second mapping of shared pages replaces a part of an array: by mremap(2) with an old size of 0, and by
   shmat(2) with SHM_REMAP. */
#include "check.h"

#include <sys/shm.h>

#define BYTES (16 * MIB)

static int both = PROT_READ | PROT_WRITE, fixed = MREMAP_MAYMOVE | MREMAP_FIXED;

/* Prints the error of a call that fails. */
static void failed(const char *what, const void *outcome) {
    CHECK(outcome == MAP_FAILED);
    printf("%s: %s\n", what, strerror(errno));
}

/* Checks that `all` holds the words of `fill(all, BYTES, 1)`, except in the MIB bytes from `part` on. */
static void others_hold(const char *all, const char *part) {
    CHECK(holds(all, part - all, 1));
    for (size_t at = (part - all + MIB) / 8; at < BYTES / 8; at++)
        CHECK(((const uint64_t *)all)[at] == word(at, 1));
}

/* Checks that `part` and `source` are mappings of the same pages. */
static void same(char *part, char *source) {
    CHECK(holds(part, MIB, 2));
    fill(source, MIB, 3);
    CHECK(holds(part, MIB, 3));
    fill(part, MIB, 2);
    CHECK(holds(source, MIB, 2));
}

int main(void) {
    char *all = mmap(NULL, BYTES, both, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(all != MAP_FAILED);
    fill(all, BYTES, 1);
    char *part = all + 4 * MIB, *last = all + 12 * MIB;
    int fd = memfd_create("shared", 0);
    CHECK(fd >= 0 && ftruncate(fd, MIB) == 0);
    char *file = mmap(NULL, MIB, both, MAP_SHARED, fd, 0);
    CHECK(file != MAP_FAILED);
    fill(file, MIB, 2);
    CHECK(mremap(file, 0, MIB, fixed, part) == part);
    same(part, file);
    others_hold(all, part);
    failed("an address within a page", mremap(file + 8, 0, MIB, fixed, part));
    failed("a new address within a page", mremap(file, 0, MIB, fixed, part + 8));
    failed("no bytes", mremap(file, 0, 0, fixed, part));
    failed("no move", mremap(file, 0, MIB, MREMAP_FIXED, part));
    failed("private pages", mremap(last, 0, MIB, MREMAP_MAYMOVE));
    others_hold(all, part);
    /* The kernel may unmap the pages at the new address before it refuses the call. */
    failed("private pages at an address", mremap(last, 0, MIB, fixed, part));
    CHECK(mmap(part, MIB, both, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == part);
    CHECK(is_zero(part, MIB));
    others_hold(all, part);

    int id = shmget(IPC_PRIVATE, MIB, IPC_CREAT | 0600);
    CHECK(id >= 0);
    char *segment = shmat(id, NULL, 0);
    CHECK(segment != MAP_FAILED && shmctl(id, IPC_RMID, NULL) == 0);
    fill(segment, MIB, 2);
    failed("an address in use", shmat(id, part, 0));
    failed("no segment", shmat(-1, part, SHM_REMAP));
    failed("an address within a page to remap", shmat(id, part + 8, SHM_REMAP));
    CHECK(is_zero(part, MIB));
    CHECK(shmat(id, part + 8, SHM_REMAP | SHM_RND) == part);
    same(part, segment);
    others_hold(all, part);
    CHECK(shmdt(segment) == 0 && shmdt(part) == 0);
    failed("a segment that is gone", shmat(id, part, SHM_REMAP));
    CHECK(mmap(part, MIB, both, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == part);
    fill(part, MIB, 4);
    CHECK(holds(part, MIB, 4));
    others_hold(all, part);
    return 0;
}
