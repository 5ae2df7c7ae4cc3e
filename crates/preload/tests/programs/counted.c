/* Mappings of files are no part of the memory that is counted until it is large enough to be extended. */
#include "check.h"

#define BLOCKS 100
#define BLOCK (512UL << 10)

int main(int count, char **arguments) {
    CHECK(count == 2);
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
