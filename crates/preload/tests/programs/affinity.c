/* A thread that mostly waits for pages always runs with its own affinity mask, and so do the threads
   that it creates: a new thread inherits the mask of its creator. */
#include "check.h"
#include <pthread.h>
#include <sched.h>

#define BYTES (48 * MIB)
#define ACCESSES 15000

static cpu_set_t own;

static int has_own_mask(void) {
    cpu_set_t now;
    CHECK(sched_getaffinity(0, sizeof now, &now) == 0);
    return CPU_EQUAL(&now, &own);
}

static void *thread(void *unused) {
    (void)unused;
    CHECK(has_own_mask());
    return NULL;
}

int main(void) {
    CHECK(sched_getaffinity(0, sizeof own, &own) == 0);
    volatile char *memory = malloc(BYTES);
    CHECK(memory);
    fill((void *)memory, BYTES, 1);
    for (uint64_t at = 0; at < ACCESSES; at++) {
        (void)memory[word(at, 2) % BYTES];
        if (at % 256) {
            CHECK(has_own_mask());
            continue;
        }
        pthread_t other;
        CHECK(pthread_create(&other, NULL, thread, NULL) == 0 && pthread_join(other, NULL) == 0);
    }
    CHECK(is_extended(BYTES));
    puts("right");
    return 0;
}
