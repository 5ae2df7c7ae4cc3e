/* Calls that fail leave the memory as it is. */
#include "check.h"

#define BYTES (16 * MIB)

static char *map(size_t bytes) {
    char *all = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(all != MAP_FAILED);
    return all;
}

/* Prints the error of a call that fails. */
static void failed(const char *what, const void *outcome) {
    CHECK(outcome == MAP_FAILED);
    printf("%s: %s\n", what, strerror(errno));
}

int main(void) {
    char *all = map(BYTES), *gone = map(MIB), *small = map(2 * MIB);
    fill(all, BYTES, 1);
    fill(small, 2 * MIB, 2);
    CHECK(munmap(gone, MIB) == 0);
    char *part = all + 4 * MIB;
    int both = PROT_READ | PROT_WRITE, shared = MAP_SHARED | MAP_FIXED;
    int fd = open("/proc/self/exe", O_RDONLY);
    CHECK(fd >= 0);
    failed("no such descriptor", mmap(part, MIB, both, shared, 999, 0));
    failed("a file that is not open for writing", mmap(part, MIB, both, shared, fd, 0));
    failed("an offset within a page", mmap(part, MIB, PROT_READ, shared, fd, 7));
    CHECK(holds(all, BYTES, 1));
    int may_move = MREMAP_MAYMOVE, fixed = MREMAP_MAYMOVE | MREMAP_FIXED;
    failed("no source", mremap(gone, MIB, MIB, fixed, part));
    failed("no source, which grows", mremap(gone, MIB, 2 * MIB, fixed, part));
    failed("a fixed address without a move", mremap(small, MIB, MIB, MREMAP_FIXED, part));
    failed("an unknown flag", mremap(small, MIB, MIB, fixed | 64, part));
    failed("no whole pages", mremap(small, MIB, MIB, fixed, part + 1));
    /* Two mappings may move together (Linux 6.17), but not grow. The memory behind them is another mapping. */
    char *two = map(4 * MIB);
    fill(two, 4 * MIB, 5);
    CHECK(mprotect(two, MIB, PROT_READ) == 0 && mprotect(two + 2 * MIB, 2 * MIB, PROT_READ) == 0);
    failed("two mappings, which grow", mremap(two, 2 * MIB, 3 * MIB, fixed, part));
    CHECK(holds(two, 4 * MIB, 5));
    CHECK(holds(all, BYTES, 1) && holds(small, 2 * MIB, 2));
    /* The end of the new range exceeds the largest address. */
    size_t wraps = -(uintptr_t)all;
    failed("a size that wraps", mremap(all, BYTES, wraps, may_move));
    failed("a size that wraps to a small one", mremap(all, BYTES, wraps + BYTES / 2, may_move));
    failed("a size that wraps without a move", mremap(all, BYTES, wraps + BYTES / 2, 0));
    failed("the largest size", mremap(all, BYTES, -PAGE, may_move));
    failed("the largest size of other memory", mremap(small, 2 * MIB, -PAGE, may_move));
    failed("the largest size at an address", mremap(all, BYTES, -PAGE, fixed, part));
    CHECK(holds(all, BYTES, 1) && holds(small, 2 * MIB, 2));
    /* The same calls with valid arguments. */
    CHECK(mmap(part, MIB, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0) == part);
    CHECK(memcmp(part, "\177ELF", 4) == 0);
    CHECK(holds(all, 4 * MIB, 1) && *(uint64_t *)(part + MIB) == word(5 * MIB / 8, 1));
    char *to = all + 8 * MIB;
    CHECK(mremap(small, 2 * MIB, 2 * MIB, fixed, to) == to && holds(to, 2 * MIB, 2));
    char *other = map(2 * MIB);
    fill(other, 2 * MIB, 4);
    CHECK(mremap(other, 2 * MIB, MIB, fixed, all) == all && holds(all, MIB, 4));
    CHECK(holds(to, 2 * MIB, 2));
    int over = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    CHECK(mmap(all, BYTES, both, over, -1, 0) == all && is_zero(all, BYTES));
    fill(all, BYTES, 3);
    CHECK(holds(all, BYTES, 3));
    return 0;
}
