/* A storm: for a number of seconds, threads read, write, protect, release, move and fork at random. Each page that
   a thread reads is checked in full, and at the end all pages are. Arguments: the seconds, and `memory-only` if
   no system call may read or write extended memory. */
#include "check.h"
#include <pthread.h>
#include <time.h>

#define THREADS 8
#define PAGES 2048
#define WORDS (PAGE / 8)
#define BYTES (PAGES * PAGE)
#define RUN 64

/* An array of 8 MiB. A writer of its pages holds the lock for writing, a reader for reading. */
static struct slice {
    pthread_rwlock_t lock;
    uint64_t *memory;
    uint64_t seeds[PAGES]; /* the seed of each page's content; 0 if the page is zeros */
} slices[THREADS];

static volatile int is_over;
static volatile int alone = -1; /* the only thread that works at present; -1: all threads work */
static int is_memory_only;

static uint64_t next(uint64_t *state) {
    *state += 0x9e3779b97f4a7c15UL;
    return word(*state, *state >> 32);
}

static uint64_t *page_of(struct slice *of, size_t page) { return of->memory + page * WORDS; }

static void check(struct slice *of, size_t page, size_t count) {
    for (size_t end = page + count; page < end; page++) {
        uint64_t seed = of->seeds[page];
        CHECK(seed ? holds(page_of(of, page), PAGE, seed) : is_zero(page_of(of, page), PAGE));
    }
}

static void write_pages(struct slice *of, size_t page, size_t count, uint64_t seed) {
    for (size_t at = page; at < page + count; at++) {
        fill(page_of(of, at), PAGE, seed);
        of->seeds[at] = seed;
    }
}

static void zeroed(struct slice *of, size_t page, size_t count) {
    memset(of->seeds + page, 0, count * sizeof(uint64_t));
}

/* Advice that keeps the content. */
static void advise(struct slice *of, size_t page, size_t count, uint64_t random) {
    const int advices[] = {MADV_WILLNEED, MADV_COLD,     MADV_PAGEOUT,   MADV_SEQUENTIAL,
                           MADV_RANDOM,   MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_NORMAL};
    madvise(page_of(of, page), count * PAGE, advices[random % 8]);
}

/* Moves the whole slice to other addresses. */
static void move(struct slice *of) {
    void *to = mmap(NULL, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(to != MAP_FAILED);
    void *moved = mremap(of->memory, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, to);
    CHECK(moved == to);
    of->memory = moved;
}

/* Copies a page to another page through a pipe. */
static void copy_by_kernel(struct slice *of, size_t from, size_t to) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    CHECK(write(ends[1], page_of(of, from), PAGE) == PAGE);
    CHECK(read(ends[0], page_of(of, to), PAGE) == PAGE);
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
    of->seeds[to] = of->seeds[from];
}

/* Forks. The child checks and writes pages of all slices. Every second child does so until it is killed. */
static void fork_child(uint64_t random) {
    for (int at = 0; at < THREADS; at++) CHECK(pthread_rwlock_rdlock(&slices[at].lock) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        for (int step = 0; step < 100 || random % 2; step++) {
            uint64_t choice = next(&random);
            struct slice *of = &slices[choice % THREADS];
            size_t page = (choice >> 8) % PAGES;
            check(of, page, 1);
            if (choice >> 60 < 4) write_pages(of, page, 1, choice);
        }
        _exit(0);
    }
    for (int at = 0; at < THREADS; at++) CHECK(pthread_rwlock_unlock(&slices[at].lock) == 0);
    int status;
    if (random % 2) {
        usleep((random >> 8) % 20000);
        CHECK(kill(child, SIGKILL) == 0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL && random % 2 : WEXITSTATUS(status) == 0);
}

static void change(struct slice *of, size_t page, size_t count, uint64_t random) {
    char *first = (char *)page_of(of, page);
    size_t bytes = count * PAGE;
    switch (random % 64) {
    case 0 ... 1:
        CHECK(madvise(first, bytes, MADV_DONTNEED) == 0);
        zeroed(of, page, count);
        break;
    case 2: {
        int fixed = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
        CHECK(mmap(first, bytes, PROT_READ | PROT_WRITE, fixed, -1, 0) == first);
        zeroed(of, page, count);
        break;
    }
    case 3:
        CHECK(mprotect(first, bytes, PROT_READ) == 0);
        check(of, page, count);
        CHECK(mprotect(first, bytes, PROT_READ | PROT_WRITE) == 0);
        break;
    case 4:
        advise(of, page, count, random >> 8);
        break;
    case 5:
        if (!is_memory_only) copy_by_kernel(of, page, (page + count) % PAGES);
        break;
    case 6:
        if (random >> 58 == 0) move(of);
        break;
    case 7 ... 12:
        write_pages(of, page, count, random | 1);
        break;
    default:
        write_pages(of, page, 1, random | 1);
    }
}

static void *work(void *argument) {
    int own = (int)(intptr_t)argument;
    uint64_t state = own;
    while (!is_over) {
        if (alone >= 0 && alone != own) {
            usleep(1000);
            continue;
        }
        uint64_t random = next(&state), choice = random >> 32;
        struct slice *of = &slices[random % 4 ? own : choice % THREADS];
        size_t page = (choice >> 3) % PAGES, count = 1 + (choice >> 20) % RUN;
        if (page + count > PAGES) count = PAGES - page;
        if (random >> 52 == 0) {
            fork_child(next(&state));
        } else if (random >> 62 == 0) {
            CHECK(pthread_rwlock_wrlock(&of->lock) == 0);
            change(of, page, count, next(&state));
            CHECK(pthread_rwlock_unlock(&of->lock) == 0);
        } else {
            CHECK(pthread_rwlock_rdlock(&of->lock) == 0);
            check(of, page, random >> 60 == 15 ? count : 1);
            CHECK(pthread_rwlock_unlock(&of->lock) == 0);
        }
    }
    return NULL;
}

int main(int count, char **arguments) {
    CHECK(count > 1);
    int seconds = atoi(arguments[1]);
    is_memory_only = count > 2 && strcmp(arguments[2], "memory-only") == 0;
    pthread_t threads[THREADS];
    for (int at = 0; at < THREADS; at++) {
        CHECK(pthread_rwlock_init(&slices[at].lock, NULL) == 0);
        slices[at].memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(slices[at].memory != MAP_FAILED);
    }
    for (int at = 0; at < THREADS; at++)
        CHECK(pthread_create(&threads[at], NULL, work, (void *)(intptr_t)at) == 0);
    /* For one second of four, a single thread works, so that the pager's thread shares its CPU. */
    for (int second = 0; second < seconds; second++) {
        alone = second % 4 == 3 ? second / 4 % THREADS : -1;
        sleep(1);
    }
    is_over = 1;
    for (int at = 0; at < THREADS; at++) CHECK(pthread_join(threads[at], NULL) == 0);
    for (int at = 0; at < THREADS; at++) check(&slices[at], 0, PAGES);
    puts("no word is wrong");
    return 0;
}
