/* Many forks one after the other, with a changed page before and after each fork. */
#include "check.h"

#define BYTES (8 * MIB)
#define FORKS 300

int main(void) {
    char *all = calloc(1, BYTES);
    CHECK(all);
    for (size_t at = 0; at < FORKS; at++) {
        char *one = all + at * 2 * PAGE, *two = one + PAGE;
        *one = 1;
        int to_child[2];
        CHECK(pipe(to_child) == 0);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            char byte;
            CHECK(read(to_child[0], &byte, 1) == 1);
            for (size_t page = 0; page <= at; page++) CHECK(all[page * 2 * PAGE] == 1);
            _exit(*two == 0 ? 3 : 1);
        }
        /* The child still runs while the parent changes another page. */
        *two = 1;
        CHECK(write(to_child[1], "", 1) == 1);
        int status;
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 3);
        CHECK(close(to_child[0]) == 0 && close(to_child[1]) == 0);
    }
    for (size_t page = 0; page < 2 * FORKS; page++) CHECK(all[page * PAGE] == 1);
    puts("all children had the memory");
    return 0;
}
