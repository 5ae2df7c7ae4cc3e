/* Every allocation function, with more memory than the budget. */
#include "check.h"
#include <malloc.h>

int main(void) {
    size_t bytes = 24 * MIB;
    char *blocks[8];
    blocks[0] = malloc(bytes);
    blocks[1] = calloc(bytes / 16, 16);
    CHECK(is_zero(blocks[1], bytes));
    blocks[2] = memalign(1 << 16, bytes);
    blocks[3] = aligned_alloc(64, bytes);
    CHECK(posix_memalign((void **)&blocks[4], 1 << 21, bytes) == 0);
    blocks[5] = valloc(bytes);
    blocks[6] = pvalloc(bytes - 5);
    blocks[7] = reallocarray(NULL, bytes / 8, 8);
    uintptr_t align[8] = {16, 16, 1 << 16, 64, 1 << 21, PAGE, PAGE, 16};
    for (int at = 0; at < 8; at++) {
        CHECK(blocks[at] && (uintptr_t)blocks[at] % align[at] == 0);
        CHECK(malloc_usable_size(blocks[at]) >= bytes);
        fill(blocks[at], bytes, at);
    }
    printf("%zu %zu\n", (uintptr_t)blocks[0] % PAGE, (uintptr_t)blocks[1] % PAGE);
    for (int at = 0; at < 8; at++) CHECK(holds(blocks[at], bytes, at));
    for (int at = 1; at < 8; at++) free(blocks[at]);
    /* realloc to larger and smaller sizes, across the size from which blocks are extended. */
    char *block = realloc(blocks[0], 40 * MIB);
    CHECK(block && holds(block, bytes, 0));
    fill(block, 40 * MIB, 9);
    block = realloc(block, 20 * MIB);
    CHECK(block && holds(block, 20 * MIB, 9));
    block = realloc(block, 60 * MIB);
    CHECK(block && holds(block, 20 * MIB, 9));
    memset(block + 20 * MIB, 1, 40 * MIB);
    block = realloc(block, 1000);
    CHECK(block && holds(block, 1000, 9));
    block = realloc(block, 30 * MIB);
    CHECK(block && holds(block, 1000, 9));
    CHECK(realloc(block, 0) == NULL);
    /* Small blocks belong to the C library, which returns their usable size. */
    for (size_t small = 1; small < 1 << 19; small = small * 3 + 1) {
        char *one = malloc(small);
        CHECK(malloc_usable_size(one) >= small);
        memset(one, 1, malloc_usable_size(one));
        /* Above 128 KiB, glibc's usable size depends on earlier calls of free. */
        if (small < 1 << 17) printf("%zu\n", malloc_usable_size(one));
        free(one);
    }
    CHECK(malloc(-1UL) == NULL && errno == ENOMEM);
    CHECK(reallocarray(NULL, -1UL, 2) == NULL && errno == ENOMEM);
    CHECK(posix_memalign((void **)&block, 24, bytes) == EINVAL);
    /* calloc returns zeros for memory that was freed before. */
    for (int round = 0; round < 20; round++) {
        char *one = calloc(1, bytes);
        CHECK(is_zero(one, bytes));
        fill(one, bytes, round);
        CHECK(holds(one, bytes, round));
        free(one);
    }
    return 0;
}
