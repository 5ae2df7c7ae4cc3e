/* Children have a copy of their parent's memory; neither sees the other's later changes. */
#include "check.h"
#include <spawn.h>
#include <pthread.h>

extern char **environ;
#define BYTES (24 * MIB)

static char *all, *other;
static volatile int is_over;

static int outcome(pid_t child) {
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

static void family(void) {
    fill(all, BYTES, 1);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(holds(all, BYTES, 1));
        fill(all, BYTES / 2, 2);
        char *new = malloc(BYTES);
        fill(new, BYTES, 3);
        pid_t grandchild = fork();
        if (grandchild == 0) {
            CHECK(holds(all, BYTES / 2, 2) && holds(new, BYTES, 3));
            fill(all, BYTES, 4);
            free(new);
            CHECK(holds(all, BYTES, 4));
            _exit(7);
        }
        fill(new, BYTES, 5);
        CHECK(outcome(grandchild) == 7);
        CHECK(holds(all, BYTES / 2, 2) && holds(new, BYTES, 5));
        exit(8);
    }
    fill(all + BYTES / 2, BYTES / 2, 6);
    CHECK(outcome(child) == 8);
    CHECK(holds(all + BYTES / 2, BYTES / 2, 6));
    for (size_t at = 0; at < BYTES / 16; at++) CHECK(((uint64_t *)all)[at] == word(at, 1));
}

/* Children that execute another program, by posix_spawn(3), vfork(2), system(3) and fork(2). */
static void programs(void) {
    fill(all, BYTES, 7);
    for (int round = 0; round < 10; round++) {
        char *arguments[] = {"sh", "-c", "exit 5", NULL};
        /* The arguments and the environment may be in extended memory. */
        strcpy(other + round * PAGE, "exit 6");
        char *same[] = {"sh", "-c", other + round * PAGE, NULL};
        pid_t child;
        CHECK(posix_spawn(&child, "/bin/sh", NULL, NULL, arguments, environ) == 0);
        CHECK(outcome(child) == 5);
        child = vfork();
        if (child == 0) {
            other[round + 100] = 9;
            execv("/bin/sh", same);
            _exit(1);
        }
        CHECK(outcome(child) == 6 && other[round + 100] == 9);
        CHECK(WEXITSTATUS(system("exit 4")) == 4);
        child = fork();
        if (child == 0) {
            execv("/bin/sh", same);
            _exit(1);
        }
        CHECK(outcome(child) == 6);
    }
    CHECK(holds(all, BYTES, 7));
}

static void *writes(void *argument) {
    uint64_t *words = argument, round = 0;
    while (!is_over) {
        round++;
        for (size_t at = 0; at < 12 * MIB / 8; at += 64) words[at] = round;
        for (size_t at = 0; at < 12 * MIB / 8; at += 64) CHECK(words[at] == round);
    }
    return NULL;
}

/* Many short-lived children, while another thread keeps writing. */
static void storm(int children) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, writes, other) == 0);
    fill(all, BYTES, 8);
    for (int at = 0; at < children; at++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            uint64_t *words = (uint64_t *)all;
            size_t mine = (size_t)at * 12345 % (BYTES / 8);
            if (at % 3 == 0) execl("/bin/true", "true", NULL);
            if (words[mine] != word(mine, 8)) _exit(1);
            words[mine] = 0;
            _exit(words[mine] == 0 ? 0 : 2);
        }
        /* Four children run at the same time. */
        if (at % 4 == 3) for (int more = 0; more < 4; more++) {
            int status;
            CHECK(wait(&status) > 0);
            CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        }
    }
    is_over = 1;
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(holds(all, BYTES, 8));
}

static void advice(void) {
    fill(all, BYTES, 9);
    char *start = (char *)(((uintptr_t)all + 2 * MIB) / PAGE * PAGE);
    CHECK(madvise(start, MIB, MADV_WIPEONFORK) == 0);
    CHECK(madvise(start + 4 * MIB, MIB, MADV_DONTFORK) == 0);
    CHECK(is_fault(start + 4 * MIB, 0) && !is_fault(start + 4 * MIB - 1, 1));
    pid_t child = fork();
    if (child == 0) {
        CHECK(is_zero(start, MIB) && *(uint64_t *)(start + MIB) != 0);
        fill(start, 4 * MIB, 10);
        CHECK(is_fault(start + 4 * MIB, 0));
        pid_t grandchild = fork();
        if (grandchild == 0) {
            CHECK(is_zero(start, MIB));
            fill(start, 4 * MIB, 11);
            _exit(holds(start, 4 * MIB, 11) ? 4 : 1);
        }
        CHECK(outcome(grandchild) == 4);
        _exit(holds(start, 4 * MIB, 10) ? 3 : 1);
    }
    CHECK(outcome(child) == 3);
    CHECK(madvise(start, MIB, MADV_KEEPONFORK) == 0);
    CHECK(madvise(start + 4 * MIB, MIB, MADV_DOFORK) == 0);
    pthread_mutexattr_t checks;
    pthread_mutex_t mutex;
    CHECK(pthread_mutexattr_init(&checks) == 0);
    CHECK(pthread_mutexattr_settype(&checks, PTHREAD_MUTEX_ERRORCHECK) == 0);
    CHECK(pthread_mutex_init(&mutex, &checks) == 0);
    child = _Fork();
    if (child == 0) {
        /* The C library has the child's thread ID, which the mutex stores as its owner. */
        CHECK(pthread_mutex_lock(&mutex) == 0 && mutex.__data.__owner == gettid());
        struct sched_param none = {0};
        CHECK(pthread_setschedparam(pthread_self(), SCHED_BATCH, &none) == 0);
        CHECK(sched_getscheduler(0) == SCHED_BATCH);
        _exit(holds(all, BYTES, 9) ? 3 : 1);
    }
    CHECK(outcome(child) == 3);
    CHECK(sched_getscheduler(0) == SCHED_OTHER);
    CHECK(holds(all, BYTES, 9));
}

/* A file that is mapped into extended memory is mapped in the child too. */
static void mapped(const char *file) {
    int fd = open(file, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && ftruncate(fd, MIB) == 0);
    char *region = mmap(NULL, 16 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    fill(region, 16 * MIB, 10);
    CHECK(mmap(region + 3 * MIB, MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0)
        == region + 3 * MIB);
    CHECK(mprotect(region + 8 * MIB, MIB, PROT_READ) == 0);
    CHECK(is_fault(region + 8 * MIB, 1) && !is_fault(region + 8 * MIB, 0));
    pid_t child = fork();
    if (child == 0) {
        CHECK(holds(region, 3 * MIB, 10));
        strcpy(region + 3 * MIB, "from the child");
        _exit(0);
    }
    CHECK(outcome(child) == 0 && strcmp(region + 3 * MIB, "from the child") == 0);
    CHECK(holds(region, 3 * MIB, 10) && munmap(region, 16 * MIB) == 0);
}

int main(int count, char **arguments) {
    CHECK(count == 3);
    all = malloc(BYTES);
    other = calloc(1, BYTES);
    family();
    programs();
    advice();
    mapped(arguments[2]);
    storm(atoi(arguments[1]));
    return 0;
}
