/* Handlers of pthread_atfork(3) that a library registers in its constructor, before or after the preloaded
   library. Each handler may use extended memory. With the macro LIBRARY, this file is the library. */
#include "check.h"
#include <pthread.h>

#ifdef LIBRARY
char *volatile used_by_handlers;
static volatile char touched[3];

static void prepare(void) {
    if (used_by_handlers) touched[0] = ++used_by_handlers[0];
}

static void in_parent(void) {
    if (used_by_handlers) touched[1] = ++used_by_handlers[PAGE];
}

static void in_child(void) {
    if (used_by_handlers) touched[2] = ++used_by_handlers[2 * PAGE];
}

__attribute__((constructor)) static void begin(void) {
    pthread_atfork(prepare, in_parent, in_child);
}

const volatile char *touched_by_handlers(void) {
    return touched;
}
#else
extern char *volatile used_by_handlers;
const volatile char *touched_by_handlers(void);

int main(void) {
    char *all = malloc(8 * MIB);
    CHECK(all);
    memset(all, 7, 8 * MIB);
    used_by_handlers = all;
    const volatile char *touched = touched_by_handlers();
    for (int round = 1; round <= 3; round++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            CHECK(touched[0] == 7 + round && touched[2] == 8);
            CHECK(all[0] == 7 + round && all[PAGE] == 6 + round && all[2 * PAGE] == 8);
            CHECK(all[3 * PAGE] == 7 && all[8 * MIB - 1] == 7);
            _exit(9);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 9);
        CHECK(touched[0] == 7 + round && touched[1] == 7 + round);
        CHECK(all[0] == 7 + round && all[PAGE] == 7 + round && all[2 * PAGE] == 7);
    }
    puts("handlers have the memory");
    return 0;
}
#endif
