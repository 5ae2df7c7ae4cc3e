/* Advice by madvise(2), and pages that are locked by mlock(2) or mlockall(2). */
#include "check.h"

int main(void) {
    size_t bytes = 32 * MIB;
    char *all = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *more = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(all != MAP_FAILED && more != MAP_FAILED);
    fill(all, bytes, 1);
    int harmless[] = {
        MADV_NORMAL, MADV_RANDOM, MADV_SEQUENTIAL, MADV_WILLNEED, MADV_COLD, MADV_PAGEOUT,
        MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_DONTDUMP, MADV_DODUMP, MADV_POPULATE_READ,
        MADV_POPULATE_WRITE, MADV_DONTFORK, MADV_DOFORK, MADV_WIPEONFORK, MADV_KEEPONFORK,
    };
    for (size_t at = 0; at < sizeof harmless / sizeof *harmless; at++) {
        CHECK(madvise(all + at * MIB + 3 * PAGE, MIB, harmless[at]) == 0);
        CHECK(posix_madvise(all + at * MIB, MIB, at % 5) == 0);
    }
    fill(more, bytes, 2);
    CHECK(holds(all, bytes, 1) && holds(more, bytes, 2));
    /* Discarded pages read as zeros at once; 24 is MADV_DONTNEED_LOCKED. */
    int gone[] = {MADV_DONTNEED, MADV_DONTNEED, 24};
    for (size_t at = 0; at < 3; at++) {
        size_t start = at * 8 * MIB + at * PAGE;
        CHECK(madvise(all + start, 5 * PAGE, gone[at]) == 0);
        CHECK(is_zero(all + start, 5 * PAGE));
        CHECK(madvise(all + start, 4 * MIB, gone[at]) == 0);
        CHECK(is_zero(all + start, 4 * MIB));
        fill(all + start, 4 * MIB, at);
        CHECK(holds(more, bytes, 2) && holds(all + start, 4 * MIB, at));
    }
    CHECK(madvise(all, bytes, MADV_FREE) == 0);
    CHECK(madvise(all, bytes, MADV_REMOVE) == -1 && errno == EINVAL);
    CHECK(madvise(all, bytes, 12345) == -1 && errno == EINVAL);
    CHECK(madvise(all + 1, bytes, MADV_DONTNEED) == -1 && errno == EINVAL);
    /* Locked pages stay resident while other pages are evicted. */
    fill(all, bytes, 3);
    CHECK(mlock(all + MIB, 2 * MIB) == 0);
    CHECK(mlock2(all + 4 * MIB, 100, MLOCK_ONFAULT) == 0);
    /* Pages that may not be accessed cannot be locked. */
    CHECK(mprotect(all + 6 * MIB, PAGE, PROT_NONE) == 0);
    CHECK(mlock(all + 6 * MIB - PAGE, 3 * PAGE) == -1 && errno == ENOMEM);
    CHECK(mprotect(all + 6 * MIB, PAGE, PROT_READ | PROT_WRITE) == 0);
    CHECK(munlock(all + 6 * MIB - PAGE, 3 * PAGE) == 0);
    fill(more, bytes, 4);
    unsigned char there[2 * MIB / PAGE];
    CHECK(mincore(all + MIB, 2 * MIB, there) == 0);
    for (size_t at = 0; at < sizeof there; at++) CHECK(there[at] & 1);
    CHECK(holds(all, bytes, 3) && holds(more, bytes, 4));
    /* mlockall fails if the regions exceed the budget. The pages that mlock has locked stay locked. */
    if (mlockall(MCL_CURRENT) == 0) CHECK(munlockall() == 0 && mlock(all + MIB, 2 * MIB) == 0);
    else CHECK(errno == ENOMEM);
    fill(more, bytes, 4);
    CHECK(mincore(all + MIB, 2 * MIB, there) == 0);
    for (size_t at = 0; at < sizeof there; at++) CHECK(there[at] & 1);
    CHECK(munlock(all + MIB, 2 * MIB) == 0);
    CHECK(msync(all, bytes, MS_SYNC) == 0);
    CHECK(mlockall(MCL_FUTURE) == 0 && munlockall() == 0);
    CHECK(holds(all, bytes, 3) && holds(more, bytes, 4));
    /* Advice about a range with another mapping and a hole in it acts on all pages that are mapped, and the hole is
       reported. */
    int both = PROT_READ | PROT_WRITE, over = MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED;
    CHECK(mmap(all + MIB, MIB, both, over, -1, 0) == all + MIB);
    fill(all + MIB, MIB, 5);
    CHECK(madvise(all, 3 * MIB, MADV_DONTNEED) == 0);
    CHECK(is_zero(all, MIB) && holds(all + MIB, MIB, 5) && is_zero(all + 2 * MIB, MIB));
    fill(all + 2 * MIB, 4 * MIB, 6);
    CHECK(munmap(all + 3 * MIB, MIB) == 0);
    CHECK(madvise(all + 2 * MIB, 3 * MIB, MADV_DONTNEED) == -1 && errno == ENOMEM);
    CHECK(is_zero(all + 2 * MIB, MIB) && is_zero(all + 4 * MIB, MIB) && *(uint64_t *)(all + 5 * MIB) != 0);
    /* mlockall of memory that is not extended: with MCL_ONFAULT a page becomes resident at its first access,
       without it at once. */
    CHECK(munmap(all, bytes) == 0 && munmap(more, bytes) == 0);
    char *small = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(small != MAP_FAILED);
    CHECK(madvise(small, 16 * PAGE, MADV_NOHUGEPAGE) == 0);
    if (mlockall(MCL_CURRENT | MCL_ONFAULT) == 0) {
        CHECK(mincore(small, 16 * PAGE, there) == 0);
        for (size_t at = 0; at < 16; at++) CHECK(!(there[at] & 1));
        CHECK(mlockall(MCL_CURRENT) == 0);
        CHECK(mincore(small, 16 * PAGE, there) == 0);
        for (size_t at = 0; at < 16; at++) CHECK(there[at] & 1);
        CHECK(munlockall() == 0);
    }
    return 0;
}
