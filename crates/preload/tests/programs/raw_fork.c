/* Children that the program forks by a system call of its own, while other threads map and unmap memory. The
   locks that these threads hold stay locked in the children. */
#include "check.h"
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>

#define FORKS 500
#define BLOCK (200UL << 10)
#define SHARED (16 * MIB)
/* A child that has not exited after this time hangs. */
#define SECONDS 20

static const int both = PROT_READ | PROT_WRITE, anonymous = MAP_PRIVATE | MAP_ANONYMOUS;
static volatile int ends;

static void *map_blocks(void *unused) {
    (void)unused;
    while (!ends) {
        char *block = mmap(NULL, BLOCK, both, anonymous, -1, 0);
        CHECK(block != MAP_FAILED && munmap(block, BLOCK) == 0);
    }
    return NULL;
}

static int exits(pid_t child) {
    const struct timespec pause = {0, 100000};
    struct timespec now, start;
    clock_gettime(CLOCK_MONOTONIC, &start);
    int status;
    pid_t found;
    while ((found = waitpid(child, &status, WNOHANG)) == 0) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (now.tv_sec - start.tv_sec > SECONDS) {
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
            return 0;
        }
        nanosleep(&pause, NULL);
    }
    return found == child && WIFEXITED(status) && WEXITSTATUS(status) == 3;
}

static void run(char *block) {
    if (munmap(block, BLOCK) != 0) _exit(1);
    char *other = mmap(NULL, BLOCK, both, anonymous, -1, 0);
    if (other == MAP_FAILED) _exit(1);
    char *moved = mremap(other, BLOCK, 2 * BLOCK, MREMAP_MAYMOVE);
    if (moved == MAP_FAILED) _exit(1);
    moved[BLOCK] = 1;
    if (mmap(moved, BLOCK, both, anonymous | MAP_FIXED, -1, 0) != moved) _exit(1);
    pid_t grandchild = fork();
    if (grandchild == 0) _exit(munmap(moved, BLOCK) == 0 ? 3 : 1);
    int status;
    if (waitpid(grandchild, &status, 0) != grandchild) _exit(1);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    if (strcmp(arguments[1], "shared") == 0) {
        char *shared = mmap(NULL, SHARED, both, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        CHECK(shared != MAP_FAILED);
        shared[0] = 1;
    }
    char *block = mmap(NULL, BLOCK, both, anonymous, -1, 0);
    CHECK(block != MAP_FAILED);
    pthread_t threads[3];
    for (int at = 0; at < 3; at++) CHECK(pthread_create(threads + at, NULL, map_blocks, NULL) == 0);
    for (int at = 0; at < FORKS; at++) {
        pid_t child = syscall(SYS_fork);
        if (child == 0) run(block);
        CHECK(child > 0 && exits(child));
    }
    ends = 1;
    for (int at = 0; at < 3; at++) CHECK(pthread_join(threads[at], NULL) == 0);
    puts("all children have exited");
    return 0;
}
