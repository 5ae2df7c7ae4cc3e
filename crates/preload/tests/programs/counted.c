/* Mappings count as unextended memory until they add up to the size from which memory is extended. Mappings of
   files do not count. A counted mapping stays counted if a new private mapping replaces it, or if mremap(2)
   moves its pages and leaves it mapped. */
#include "check.h"

#define BLOCKS 100
#define BLOCK (512UL << 10)

static const int both = PROT_READ | PROT_WRITE, anonymous = MAP_PRIVATE | MAP_ANONYMOUS;

/* Returns a block that was first reserved without access, and then replaced by an accessible mapping. */
static char *replaced(void) {
    char *block = mmap(NULL, BLOCK, PROT_NONE, anonymous | MAP_NORESERVE, -1, 0);
    CHECK(block != MAP_FAILED);
    CHECK(mmap(block, BLOCK, both, anonymous | MAP_FIXED, -1, 0) == block);
    return block;
}

/* Returns a block that stays mapped after mremap(2) has moved its pages away. */
static char *left(void) {
    char *block = mmap(NULL, BLOCK, both, anonymous, -1, 0);
    CHECK(block != MAP_FAILED);
    char *moved = mremap(block, BLOCK, BLOCK, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
    CHECK(moved != MAP_FAILED && munmap(moved, BLOCK) == 0);
    return block;
}

/* Returns a block after calls on it that the kernel has refused: a move onto itself, and a mapping of no file. */
static char *refused(void) {
    char *block = mmap(NULL, BLOCK, both, anonymous, -1, 0);
    CHECK(block != MAP_FAILED);
    CHECK(mremap(block, BLOCK, BLOCK, MREMAP_MAYMOVE | MREMAP_FIXED, block + PAGE) == MAP_FAILED);
    CHECK(errno == EINVAL);
    CHECK(mmap(block, BLOCK, PROT_READ, MAP_SHARED | MAP_FIXED, -1, 0) == MAP_FAILED && errno == EBADF);
    return block;
}

static void mapped(char *map(void)) {
    char *blocks[BLOCKS];
    for (size_t at = 0; at < BLOCKS; at++) fill(blocks[at] = map(), BLOCK, at);
    CHECK(is_extended(BLOCKS * BLOCK));
    for (size_t at = 0; at < BLOCKS; at++)
        CHECK(holds(blocks[at], BLOCK, at) && munmap(blocks[at], BLOCK) == 0);
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    mapped(replaced);
    mapped(left);
    mapped(refused);
    int fd = open(arguments[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && ftruncate(fd, MIB) == 0);
    char *blocks[BLOCKS];
    for (size_t at = 0; at < BLOCKS; at++) {
        CHECK(blocks[at] = malloc(BLOCK));
        fill(blocks[at], BLOCK, at);
        char *file = mmap(NULL, MIB, PROT_READ, MAP_SHARED, fd, 0);
        CHECK(file != MAP_FAILED && file[0] == 0 && munmap(file, MIB) == 0);
    }
    CHECK(is_extended(BLOCKS * BLOCK));
    for (size_t at = 0; at < BLOCKS; at++) {
        CHECK(holds(blocks[at], BLOCK, at));
        free(blocks[at]);
    }
    CHECK(close(fd) == 0 && unlink(arguments[1]) == 0);
    puts("extended");
    return 0;
}
