/* A program with fixed addresses (not PIE) that takes the addresses of malloc and its family, as interpreters do. The
   addresses are entries of the program's own procedure linkage table, but calls still reach the definitions of a library. */
#include "check.h"
#include <malloc.h>

#define BYTES (24 * MIB)

static void *(*const allocate[])(size_t) = {malloc};
static void *(*const allocate_many[])(size_t, size_t) = {calloc};
static void *(*const resize[])(void *, size_t) = {realloc};
static void *(*const align[])(size_t, size_t) = {memalign};
static void (*const release[])(void *) = {free};

int main(int count, char **arguments) {
    (void)arguments;
    char *one = allocate[count - 1](BYTES), *two = allocate_many[count - 1](BYTES, 1);
    char *three = align[count - 1](PAGE, BYTES);
    CHECK(one && two && three);
    fill(one, BYTES, 1);
    CHECK(is_zero(two, BYTES));
    fill(two, BYTES, 2);
    fill(three, BYTES, 3);
    one = resize[count - 1](one, 2 * BYTES);
    CHECK(one && holds(one, BYTES, 1) && holds(two, BYTES, 2) && holds(three, BYTES, 3));
    CHECK(is_extended(3 * BYTES));
    release[count - 1](one);
    release[count - 1](two);
    release[count - 1](three);
    puts("all blocks were right");
    return 0;
}
