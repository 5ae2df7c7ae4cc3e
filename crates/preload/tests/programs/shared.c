/* Processes that share memory: each sees the writes of the others, while processes start and end. */
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define BYTES (40 * MIB)
#define CHILDREN 3

static int outcome(pid_t child) {
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

static char *share(size_t bytes) {
    char *all = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(all != MAP_FAILED);
    return all;
}

/* True if at most the budget of 16 MiB is resident, or if memory is not extended. */
static int is_within(char *all) {
    static unsigned char is_here[BYTES / PAGE];
    CHECK(mincore(all, BYTES, is_here) == 0);
    size_t count = 0;
    for (size_t page = 0; page < BYTES / PAGE; page++) count += is_here[page] & 1;
    return getenv("INTERLEAF_EXTEND") == NULL || count <= 16 * MIB / PAGE;
}

/* Children see their parent's writes, and their parent sees the writes of all children. */
static void family(void) {
    char *all = share(BYTES);
    CHECK(is_zero(all, BYTES));
    fill(all, BYTES, 1);
    CHECK(is_within(all));
    pid_t children[CHILDREN];
    for (long child = 0; child < CHILDREN; child++) {
        children[child] = fork();
        CHECK(children[child] >= 0);
        if (children[child] == 0) {
            CHECK(holds(all, BYTES / 2, 1));
            /* Neighbouring pages are written by different processes. */
            for (size_t at = BYTES / 2 + child * PAGE; at < BYTES; at += CHILDREN * PAGE)
                fill(all + at, PAGE, at);
            CHECK(is_within(all));
            exit(child + 5);
        }
    }
    for (long child = 0; child < CHILDREN; child++) CHECK(outcome(children[child]) == child + 5);
    CHECK(holds(all, BYTES / 2, 1));
    for (size_t at = BYTES / 2; at + PAGE <= BYTES; at += PAGE) CHECK(holds(all + at, PAGE, at));
    CHECK(munmap(all, BYTES) == 0);
}

/* One counter in each page: all children increment all counters at the same time, each in its own order. */
static void counters(void) {
    char *all = share(BYTES);
    pid_t children[CHILDREN];
    size_t pages = BYTES / PAGE;
    for (long child = 0; child < CHILDREN; child++)
        if ((children[child] = fork()) == 0) {
            for (size_t at = 0; at < 2 * pages; at++) {
                size_t page = child == 1 ? 2 * pages - 1 - at : at + child * pages / CHILDREN;
                atomic_fetch_add((atomic_long *)(all + page % pages * PAGE + 64), 1);
            }
            _exit(0);
        }
    for (long child = 0; child < CHILDREN; child++) CHECK(outcome(children[child]) == 0);
    for (size_t page = 0; page < pages; page++)
        CHECK(atomic_load((atomic_long *)(all + page * PAGE + 64)) == 2 * CHILDREN);
    CHECK(munmap(all, BYTES) == 0);
}

/* Two processes that wait for each other by a mutex and a condition in shared pages, which are evicted meanwhile. */
static void turns(void) {
    char *all = share(BYTES);
    pthread_mutex_t *mutex = (pthread_mutex_t *)all;
    pthread_cond_t *changed = (pthread_cond_t *)(all + BYTES / 2);
    atomic_long *turn = (atomic_long *)(all + BYTES - PAGE);
    pthread_mutexattr_t of_mutex;
    pthread_condattr_t of_cond;
    pthread_mutexattr_init(&of_mutex);
    pthread_condattr_init(&of_cond);
    pthread_mutexattr_setpshared(&of_mutex, PTHREAD_PROCESS_SHARED);
    pthread_condattr_setpshared(&of_cond, PTHREAD_PROCESS_SHARED);
    CHECK(pthread_mutex_init(mutex, &of_mutex) == 0);
    CHECK(pthread_cond_init(changed, &of_cond) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    long mine = child == 0;
    for (long round = 0; round < 10; round++) {
        pthread_mutex_lock(mutex);
        while (*turn % 2 != mine) pthread_cond_wait(changed, mutex);
        pthread_mutex_unlock(mutex);
        fill(all + MIB * (2 + round), MIB, 2 * round + mine);
        fill(all + BYTES / 2 + MIB, 12 * MIB, mine);
        pthread_mutex_lock(mutex);
        ++*turn;
        pthread_cond_broadcast(changed);
        pthread_mutex_unlock(mutex);
    }
    if (child == 0) _exit(3);
    CHECK(outcome(child) == 3);
    CHECK(*turn == 20);
    for (long round = 0; round < 10; round++)
        CHECK(holds(all + MIB * (2 + round), MIB, 2 * round + 1));
    CHECK(holds(all + BYTES / 2 + MIB, 12 * MIB, 1));
    CHECK(munmap(all, BYTES) == 0);
}

/* A child keeps using its parent's shared memory after the parent has exited or was killed. */
static void orphans(int is_killed) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        char *all = share(BYTES);
        fill(all, BYTES, 8);
        pid_t parent = getpid();
        if (fork() > 0) {
            if (is_killed) kill(parent, SIGKILL);
            _exit(0);
        }
        while (getppid() == parent) sched_yield();
        CHECK(holds(all, BYTES, 8));
        fill(all, BYTES, 9);
        if (fork() > 0) _exit(0);
        CHECK(holds(all, BYTES, 9));
        CHECK(write(ends[1], "done", 4) == 4);
        _exit(0);
    }
    close(ends[1]);
    CHECK(outcome(child) == (is_killed ? 100 + SIGKILL : 0));
    char said[8];
    CHECK(read(ends[0], said, sizeof said) == 4);
    close(ends[0]);
}

/* Other calls on shared mappings: read(2), write(2), madvise(2), mprotect(2), munmap(2), mmap(2) over a part. */
static void parts(const char *path) {
    char *all = share(BYTES);
    fill(all, BYTES, 10);
    int fd = open(path, O_CREAT | O_RDWR | O_TRUNC, 0600);
    CHECK(write(fd, all, BYTES) == BYTES);
    memset(all, 0, BYTES);
    CHECK(pread(fd, all, BYTES, 0) == BYTES);
    CHECK(holds(all, BYTES, 10));
    close(fd);
    unlink(path);
    /* MADV_DONTNEED does not discard shared pages. */
    CHECK(madvise(all, BYTES, MADV_DONTNEED) == 0);
    CHECK(madvise(all, BYTES, MADV_HUGEPAGE) == 0);
    CHECK(holds(all, BYTES, 10));
    CHECK(mprotect(all + 4 * MIB, 4 * MIB, PROT_READ) == 0);
    CHECK(munmap(all + 16 * MIB, 4 * MIB) == 0);
    char *other = mmap(all + 20 * MIB, MIB, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    CHECK(other == all + 20 * MIB && is_zero(other, MIB));
    CHECK(is_fault(all + 5 * MIB, 1) && is_fault(all + 17 * MIB, 0));
    uint64_t *words = (uint64_t *)all;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        for (size_t at = 0; at < BYTES / 8; at++) {
            size_t mib = at * 8 / MIB;
            if (mib >= 16 && mib < 21) continue;
            CHECK(words[at] == word(at, 10));
            if (mib < 4 || mib >= 8) words[at] = word(at, 11);
        }
        other[7] = 1;
        _exit(4);
    }
    CHECK(outcome(child) == 4);
    CHECK(is_zero(other, MIB));
    for (size_t at = 0; at < BYTES / 8; at++) {
        size_t mib = at * 8 / MIB;
        if (mib < 16 || mib >= 21) CHECK(words[at] == word(at, mib < 4 || mib >= 8 ? 11 : 10));
    }
    CHECK(munmap(all, BYTES) == 0);
}

/* Private memory beside shared memory stays private to each process. */
static void beside(void) {
    char *all = share(BYTES), *own = malloc(12 * MIB);
    fill(own, 12 * MIB, 12);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        memcpy(all, own, 12 * MIB);
        fill(own, 12 * MIB, 13);
        memcpy(all + 12 * MIB, own, 12 * MIB);
        _exit(6);
    }
    CHECK(outcome(child) == 6);
    CHECK(holds(own, 12 * MIB, 12));
    CHECK(holds(all, 12 * MIB, 12) && holds(all + 12 * MIB, 12 * MIB, 13));
    free(own);
    CHECK(munmap(all, BYTES) == 0);
}

/* The parent unmaps the shared memory right after the fork, and maps other memory before the child uses the
   shared memory. */
static void race(void) {
    for (long round = 1; round <= 8; round++) {
        char *all = share(12 * MIB);
        for (size_t at = 0; at < 12 * MIB; at += 16 * PAGE) fill(all + at, PAGE, round);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            usleep(20000);
            for (size_t at = 0; at < 12 * MIB; at += 16 * PAGE) {
                CHECK(holds(all + at, PAGE, round));
                fill(all + at, PAGE, 0);
            }
            _exit(7);
        }
        CHECK(munmap(all, 12 * MIB) == 0);
        char *other = share(12 * MIB);
        for (size_t at = 0; at < 12 * MIB; at += 16 * PAGE) fill(other + at, PAGE, 100 + round);
        CHECK(outcome(child) == 7);
        for (size_t at = 0; at < 12 * MIB; at += 16 * PAGE)
            CHECK(holds(other + at, PAGE, 100 + round));
        CHECK(munmap(other, 12 * MIB) == 0);
    }
}

/* A second mapping of the same pages has their content, or is refused. */
static void aliases(void) {
    char *all = share(BYTES);
    fill(all, BYTES, 14);
    char *again = mremap(all, 0, BYTES, MREMAP_MAYMOVE);
    CHECK(again == MAP_FAILED ? errno == ENOMEM : holds(again, BYTES, 14));
    if (again != MAP_FAILED) CHECK(munmap(again, BYTES) == 0);
    CHECK(holds(all, BYTES, 14));
    if (remap_file_pages(all, MIB, 0, 8 * MIB / PAGE, 0) == 0)
        CHECK(memcmp(all, all + 8 * MIB, MIB) == 0);
    else
        CHECK(errno == EINVAL && holds(all, BYTES, 14));
    for (size_t at = 2 * MIB / 8; at < BYTES / 8; at++)
        CHECK(((uint64_t *)all)[at] == word(at, 14));
    CHECK(munmap(all, BYTES) == 0);
}

/* Guard pages (Linux 6.13) are installed, or refused. */
static void guards(void) {
    char *all = share(BYTES);
    fill(all, BYTES, 15);
    for (int advice = 102; advice <= 103; advice++)
        CHECK(madvise(all, MIB, advice) == 0 || errno == EINVAL);
    for (size_t at = MIB / 8; at < BYTES / 8; at++)
        CHECK(((uint64_t *)all)[at] == word(at, 15));
    CHECK(munmap(all, BYTES) == 0);
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    family();
    counters();
    turns();
    orphans(0);
    orphans(1);
    parts(arguments[1]);
    beside();
    race();
    aliases();
    guards();
    puts("all as shared");
    return 0;
}
