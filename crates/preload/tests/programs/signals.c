/* A program's own signals, with pages that are not resident. With the second argument EFAULT, and with extended
   memory, a system call on such pages must fail with EFAULT; otherwise it must succeed. */
#include "check.h"
#include <pthread.h>
#include <setjmp.h>
#include <sys/time.h>

#define BYTES (24 * MIB)
#define THREADS 6

static char *all, *more;

/* Touches more than the budget, so that all other pages are evicted. */
static void drive_out(void) {
    fill(more, BYTES, 2);
    CHECK(holds(more, BYTES, 2));
}

static sigjmp_buf back;
static volatile sig_atomic_t jumps;

/* The program's own handler of SIGBUS: it touches pages that are not resident, too. */
static void on_sigbus(int signal, siginfo_t *info, void *context) {
    (void)info, (void)context;
    CHECK(signal == SIGBUS);
    size_t at = (size_t)jumps * 1234567 % (BYTES / 8);
    if (((uint64_t *)all)[at] != word(at, 1)) _exit(9);
    jumps++;
    siglongjmp(back, 1);
}

static void on_sent(int signal) {
    (void)signal;
    jumps++;
}

/* Maps two pages of a file and shortens the file to one: an access to the second page raises SIGBUS. */
static char *shortened(const char *file) {
    int fd = open(file, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && ftruncate(fd, 2 * PAGE) == 0);
    char *map = mmap(NULL, 2 * PAGE, PROT_READ, MAP_SHARED, fd, 0);
    CHECK(map != MAP_FAILED && ftruncate(fd, PAGE) == 0);
    close(fd);
    return map;
}

static void own_handler(const char *file) {
    volatile char *map = shortened(file);
    struct sigaction action = {0}, before;
    action.sa_sigaction = on_sigbus;
    action.sa_flags = SA_SIGINFO;
    sigfillset(&action.sa_mask);
    CHECK(sigaction(SIGBUS, &action, &before) == 0 && before.sa_handler == SIG_DFL);
    fill(all, BYTES, 1);
    for (int round = 0; round < 5; round++) {
        drive_out();
        if (sigsetjmp(back, 1) == 0) {
            (void)map[PAGE];
            CHECK(!"a touch behind the end of a file");
        }
        CHECK(jumps == round + 1);
    }
    CHECK(holds(all, BYTES, 1));
    CHECK(sigaction(SIGBUS, NULL, &before) == 0 && before.sa_sigaction == on_sigbus);
    CHECK(before.sa_flags & SA_SIGINFO);
    /* SIGBUS sent by raise(3). */
    jumps = 0;
    CHECK(signal(SIGBUS, on_sent) == (void (*)(int))on_sigbus);
    CHECK(raise(SIGBUS) == 0 && jumps == 1);
    CHECK(signal(SIGBUS, SIG_IGN) == on_sent && raise(SIGBUS) == 0 && jumps == 1);
    CHECK(signal(SIGBUS, SIG_DFL) == SIG_IGN);
    /* Without a handler SIGBUS ends the process, as usual. */
    for (int sends = 0; sends < 2; sends++) {
        pid_t child = fork();
        if (child == 0) {
            if (sends) raise(SIGBUS); else (void)map[PAGE];
            _exit(0);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
    }
    munmap((void *)map, 2 * PAGE);
}

static volatile sig_atomic_t ticks;

static void on_tick(int signal) {
    (void)signal;
    size_t at = (size_t)ticks * 7654321 % (BYTES / 8);
    if (((uint64_t *)all)[at] != word(at, 3)) _exit(9);
    ticks++;
}

/* A timer signal, whose handler blocks all signals and touches extended memory. */
static void interrupted(void) {
    fill(all, BYTES, 3);
    struct sigaction action = {0};
    action.sa_handler = on_tick;
    action.sa_flags = SA_RESTART;
    sigfillset(&action.sa_mask);
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    struct itimerval every = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};
    CHECK(setitimer(ITIMER_REAL, &every, NULL) == 0);
    for (int round = 0; round < 3 || ticks < 20; round++) {
        drive_out();
        CHECK(holds(all, BYTES, 3));
        /* The signal may interrupt malloc and free: the pager must not wait for their locks. */
        for (int at = 0; at < 2000; at++) free(malloc(at * 50));
    }
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
}

static void *works(void *argument) {
    size_t seed = (size_t)argument, part = BYTES / THREADS;
    uint64_t *own = (uint64_t *)(all + seed * part), sum = 0;
    sigset_t set;
    sigfillset(&set);
    CHECK(pthread_sigmask(SIG_SETMASK, &set, NULL) == 0);
    for (int round = 0; round < 4; round++) {
        fill(own, part, seed + round);
        for (int at = 0; at < 4000; at++) {
            size_t word = (size_t)at * 2654435761UL % (BYTES / 8);
            sum += ((volatile uint64_t *)all)[word];
        }
        CHECK(holds(own, part, seed + round));
    }
    return (void *)(uintptr_t)(sum | 1);
}

/* Several threads with all signals blocked, as threads of libraries often have. */
static void threads(void) {
    pthread_t thread[THREADS];
    for (size_t at = 0; at < THREADS; at++)
        CHECK(pthread_create(&thread[at], NULL, works, (void *)at) == 0);
    for (size_t at = 0; at < THREADS; at++) {
        void *sum;
        CHECK(pthread_join(thread[at], &sum) == 0 && sum);
    }
    sigset_t set, before;
    sigfillset(&set);
    CHECK(sigprocmask(SIG_BLOCK, &set, &before) == 0 && !sigismember(&before, SIGTERM));
    drive_out();
    for (size_t at = 0; at < THREADS; at++) {
        size_t part = BYTES / THREADS;
        CHECK(holds(all + at * part, part, at + 3));
    }
    CHECK(sigprocmask(SIG_SETMASK, &before, &set) == 0 && sigismember(&set, SIGTERM));
}

static void children(void) {
    fill(all, BYTES, 5);
    for (int round = 0; round < 3; round++) {
        pid_t child = fork();
        if (child == 0) {
            if (!holds(all, BYTES, 5)) _exit(8);
            fill(all, BYTES, 100 + round);
            _exit(holds(all, BYTES, 100 + round) ? 0 : 9);
        }
        int status;
        CHECK(holds(all, BYTES, 5));
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
}

static void kernel(const char *file, int fails) {
    int fd = open(file, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && write(fd, "something", 9) == 9);
    fill(all, BYTES, 6);
    drive_out();
    /* This page is far from recently read pages, so no prefetch has made it resident. */
    char *away = all + 11 * MIB;
    ssize_t got = pread(fd, away, 9, 0);
    if (fails) {
        CHECK(got == -1 && errno == EFAULT);
        *(volatile char *)away;
        got = pread(fd, away, 9, 0);
    }
    CHECK(got == 9 && memcmp(away, "something", 9) == 0);
    close(fd);
}

int main(int count, char **arguments) {
    CHECK(count > 1);
    all = malloc(BYTES);
    more = malloc(BYTES);
    CHECK(all && more);
    kernel(arguments[1], count > 2 && getenv("LD_PRELOAD"));
    own_handler(arguments[1]);
    interrupted();
    threads();
    children();
    unlink(arguments[1]);
    puts("all is as it was");
    return 0;
}
