/* Mappings: parts of them removed, replaced, protected, grown and moved. */
#include "check.h"
#include <setjmp.h>

static sigjmp_buf jump;

static void on_fault(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info, (void)context;
    siglongjmp(jump, 1);
}

/* True if an access to this address raises a signal. */
static int faults(volatile char *address, int writes) {
    if (sigsetjmp(jump, 1)) return 1;
    if (writes) *address = 1; else (void)*address;
    return 0;
}

static void *map(size_t bytes, int protection, int flags) {
    void *found = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    CHECK(found != MAP_FAILED);
    return found;
}

static void unmaps(void) {
    char *all = map(32 * MIB, PROT_READ | PROT_WRITE, 0);
    fill(all, 32 * MIB, 1);
    CHECK(munmap(all, 4 * MIB) == 0);
    CHECK(munmap(all + 28 * MIB, 4 * MIB) == 0);
    CHECK(munmap(all + 10 * MIB + PAGE, 3 * PAGE) == 0);
    CHECK(faults(all, 0) && faults(all + 4 * MIB - 1, 1));
    CHECK(!faults(all + 4 * MIB, 0) && !faults(all + 10 * MIB, 0));
    CHECK(faults(all + 10 * MIB + PAGE, 0) && faults(all + 10 * MIB + 4 * PAGE - 1, 1));
    CHECK(faults(all + 28 * MIB, 0));
    uint64_t *words = (uint64_t *)all;
    for (size_t at = 4 * MIB / 8; at < 28 * MIB / 8; at++)
        if (at * 8 < 10 * MIB + PAGE || at * 8 >= 10 * MIB + 4 * PAGE)
            CHECK(words[at] == word(at, 1));
    /* Map new memory in the hole that munmap left. */
    char *hole = all + 10 * MIB + PAGE;
    CHECK(mmap(hole, 3 * PAGE, PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == hole);
    CHECK(is_zero(hole, 3 * PAGE));
    CHECK(mmap(hole, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0)
        == MAP_FAILED && errno == EEXIST);
    fill(hole, 3 * PAGE, 2);
    CHECK(holds(hole, 3 * PAGE, 2));
    CHECK(munmap(all, 32 * MIB) == 0 && faults(all + 20 * MIB, 0));
}

static void replaces(const char *file) {
    char *all = map(32 * MIB, PROT_READ | PROT_WRITE, 0);
    fill(all, 32 * MIB, 3);
    /* Replace one part by anonymous memory, one by a file and one by shared memory; then replace the file
       by anonymous memory. */
    CHECK(mmap(all + MIB, MIB, PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == all + MIB);
    CHECK(is_zero(all + MIB, MIB));
    fill(all + MIB, MIB, 4);
    int fd = open(file, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && write(fd, all, MIB) == (ssize_t)MIB);
    CHECK(mmap(all + 4 * MIB, MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0)
        == all + 4 * MIB);
    CHECK(memcmp(all + 4 * MIB, all, MIB) == 0);
    strcpy(all + 4 * MIB, "in the file");
    char text[12];
    CHECK(pread(fd, text, 12, 0) == 12 && strcmp(text, "in the file") == 0);
    CHECK(mmap(all + 8 * MIB, MIB, PROT_READ | PROT_WRITE,
        MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == all + 8 * MIB);
    fill(all + 8 * MIB, MIB, 5);
    CHECK(mprotect(all + 4 * MIB, MIB, PROT_READ) == 0 && faults(all + 4 * MIB, 1));
    CHECK(mmap(all + 4 * MIB, MIB, PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == all + 4 * MIB);
    CHECK(is_zero(all + 4 * MIB, MIB));
    fill(all + 4 * MIB, MIB, 6);
    char *more = map(48 * MIB, PROT_READ | PROT_WRITE, 0);
    fill(more, 48 * MIB, 7);
    CHECK(holds(all + MIB, MIB, 4) && holds(all + 4 * MIB, MIB, 6) && holds(all + 8 * MIB, MIB, 5));
    CHECK(((uint64_t *)all)[16 * MIB / 8] == word(16 * MIB / 8, 3));
    CHECK(munmap(all, 32 * MIB) == 0 && faults(all + 8 * MIB, 0) && faults(all + 4 * MIB, 0));
    CHECK(holds(more, 48 * MIB, 7) && munmap(more, 48 * MIB) == 0);
    close(fd);
}

static void protects(void) {
    char *all = map(32 * MIB, PROT_NONE, MAP_NORESERVE);
    CHECK(faults(all, 0) && faults(all + 31 * MIB, 1));
    CHECK(mprotect(all, 24 * MIB, PROT_READ | PROT_WRITE) == 0);
    fill(all, 24 * MIB, 8);
    CHECK(faults(all + 24 * MIB, 0));
    CHECK(mprotect(all + 2 * MIB, 4 * MIB, PROT_READ) == 0);
    CHECK(mprotect(all + 7 * MIB + 3 * PAGE, PAGE, PROT_NONE) == 0);
    CHECK(mprotect(all + 9 * MIB, MIB, PROT_READ | PROT_WRITE | PROT_EXEC) == 0);
    CHECK(faults(all + 3 * MIB, 1) && faults(all + 7 * MIB + 3 * PAGE, 0));
    /* Evict all pages, read them, and evict them again. */
    char *more = map(48 * MIB, PROT_READ | PROT_WRITE, 0);
    for (int round = 0; round < 3; round++) {
        fill(more, 48 * MIB, round);
        CHECK(holds(all, 7 * MIB, 8));
        CHECK(((uint64_t *)all)[9 * MIB / 8 + 5] == word(9 * MIB / 8 + 5, 8));
        CHECK(faults(all + 3 * MIB, 1) && faults(all + 7 * MIB + 3 * PAGE, 0));
        CHECK(holds(more, 48 * MIB, round));
    }
    CHECK(mprotect(all, 32 * MIB, PROT_READ | PROT_WRITE) == 0);
    CHECK(holds(all, 24 * MIB, 8) && is_zero(all + 24 * MIB, 8 * MIB));
    CHECK(munmap(more, 48 * MIB) == 0);
    CHECK(mprotect(more, PAGE, PROT_READ) == -1 && errno == ENOMEM);
    CHECK(munmap(all, 32 * MIB) == 0);
}

static void remaps(void) {
    char *all = map(20 * MIB, PROT_READ | PROT_WRITE, 0);
    fill(all, 20 * MIB, 9);
    char *grown = mremap(all, 20 * MIB, 30 * MIB, MREMAP_MAYMOVE);
    CHECK(grown != MAP_FAILED && holds(grown, 20 * MIB, 9) && is_zero(grown + 20 * MIB, 10 * MIB));
    fill(grown, 30 * MIB, 10);
    CHECK(mremap(grown, 30 * MIB, 16 * MIB, 0) == grown && faults(grown + 16 * MIB, 0));
    CHECK(holds(grown, 16 * MIB, 10));
    /* mremap to a given address, over an existing mapping. */
    char *other = map(20 * MIB, PROT_READ | PROT_WRITE, 0);
    memset(other, 1, 20 * MIB);
    CHECK(mremap(grown, 16 * MIB, 18 * MIB, MREMAP_MAYMOVE | MREMAP_FIXED, other) == other);
    CHECK(holds(other, 16 * MIB, 10) && is_zero(other + 16 * MIB, 2 * MIB) && faults(grown, 0));
    CHECK(other[19 * MIB] == 1);
    CHECK(mremap(other, 18 * MIB, 18 * MIB, MREMAP_MAYMOVE | MREMAP_FIXED, other + MIB)
        == MAP_FAILED && errno == EINVAL);
    char *left = mremap(other, 16 * MIB, 16 * MIB, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
    CHECK(left != MAP_FAILED && holds(left, 16 * MIB, 10) && is_zero(other, 16 * MIB));
    /* A range that may not be read keeps its protection when its pages move. */
    CHECK(mprotect(left, 16 * MIB, PROT_NONE) == 0);
    char *hidden = mremap(left, 16 * MIB, 16 * MIB, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
    CHECK(hidden != MAP_FAILED && faults(left, 0) && faults(hidden, 0));
    CHECK(mprotect(hidden, 16 * MIB, PROT_READ) == 0 && holds(hidden, 16 * MIB, 10));
    CHECK(munmap(hidden, 16 * MIB) == 0);
    /* A small mapping grows to a size that is extended. */
    char *small = map(PAGE, PROT_READ | PROT_WRITE, 0);
    fill(small, PAGE, 11);
    char *large = mremap(small, PAGE, 32 * MIB, MREMAP_MAYMOVE);
    CHECK(large != MAP_FAILED && holds(large, PAGE, 11) && is_zero(large + PAGE, 32 * MIB - PAGE));
    fill(large, 32 * MIB, 12);
    CHECK(holds(large, 32 * MIB, 12));
    CHECK(munmap(large, 32 * MIB) == 0 && munmap(left, 16 * MIB) == 0);
    CHECK(munmap(other, 20 * MIB) == 0);
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0 && sigaction(SIGBUS, &action, NULL) == 0);
    unmaps();
    replaces(arguments[1]);
    protects();
    remaps();
    return 0;
}
