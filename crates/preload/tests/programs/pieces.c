/* Many blocks that are small one by one and large in sum: they count against the budget. */
#include "check.h"

#define COUNT 48
#define MOST (40 * MIB)

static char *pieces[2 * COUNT];

static size_t resident(void) {
    size_t all, there;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%zu %zu", &all, &there) == 2);
    fclose(file);
    return there * PAGE;
}

int main(void) {
    int is_extended = getenv("INTERLEAF_EXTEND") != NULL;
    /* Short-lived blocks: their total is small at any time, so they are not extended. */
    for (int round = 0; round < 200; round++) {
        char *block = malloc(MIB / 2), *mapped = mmap(NULL, MIB, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(block && mapped != MAP_FAILED);
        fill(block, MIB / 2, round);
        fill(mapped, MIB, round);
        CHECK(holds(block, MIB / 2, round) && munmap(mapped, MIB) == 0);
        free(block);
    }
    /* Arenas by mmap, as Python allocates them, and blocks by malloc, as C++ does. */
    for (int at = 0; at < COUNT; at++) {
        pieces[at] = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        pieces[COUNT + at] = malloc(MIB / 2);
        CHECK(pieces[at] != MAP_FAILED && pieces[COUNT + at]);
        fill(pieces[at], MIB, at);
        fill(pieces[COUNT + at], MIB / 2, at);
    }
    CHECK(!is_extended || resident() < MOST);
    for (int at = 0; at < COUNT; at++) {
        CHECK(holds(pieces[at], MIB, at) && holds(pieces[COUNT + at], MIB / 2, at));
        if (at % 3 == 0) {
            CHECK(munmap(pieces[at], MIB) == 0);
            pieces[COUNT + at] = realloc(pieces[COUNT + at], 3 * MIB);
            CHECK(pieces[COUNT + at] && holds(pieces[COUNT + at], MIB / 2, at));
        }
    }
    CHECK(!is_extended || resident() < MOST);
    for (int at = 0; at < COUNT; at++) {
        CHECK(at % 3 == 0 || holds(pieces[at], MIB, at));
        CHECK(holds(pieces[COUNT + at], MIB / 2, at));
        free(pieces[COUNT + at]);
    }
    return 0;
}
