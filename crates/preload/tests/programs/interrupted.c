/* After a call of siginterrupt(3) for a signal, the handled signal ends a system call with EINTR. */
#include "check.h"
#include <time.h>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

/* The handler writes at the `CALLS`-th signal, so that a read that is not interrupted ends. A thread gets one
   signal at most before its read begins, unless it is preempted several times in a row. */
#define CALLS 20

static int end[2];
static volatile sig_atomic_t calls;

static void on_signal(int signal) {
    (void)signal;
    if (++calls == CALLS) CHECK(write(end[1], "x", 1) == 1);
}

/* Reads from an empty pipe until a signal ends the read, or until the handler has written. */
static int reads(int number) {
    char byte = 0;
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = number};
    struct itimerspec times = {{0, 5000000}, {0, 5000000}};
    calls = 0;
    CHECK(pipe(end) == 0 && timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    CHECK(timer_settime(timer, 0, &times, NULL) == 0);
    long outcome = read(end[0], &byte, 1);
    int why = errno;
    CHECK(timer_delete(timer) == 0 && close(end[0]) == 0 && close(end[1]) == 0);
    return outcome == -1 ? why : 0;
}

int main(void) {
    char *all = malloc(24 * MIB);
    CHECK(all);
    fill(all, 24 * MIB, 1);
    int signals[] = {SIGUSR1, SIGUSR2};
    for (int at = 0; at < 2; at++) {
        int number = signals[at];
        CHECK(signal(number, on_signal) != SIG_ERR && reads(number) == 0);
        /* The call affects the installed handler, and handlers that are installed later. */
        CHECK(siginterrupt(number, 1) == 0 && reads(number) == EINTR);
        CHECK(signal(number, on_signal) == on_signal && reads(number) == EINTR);
        struct sigaction action;
        CHECK(sigaction(number, NULL, &action) == 0 && !(action.sa_flags & SA_RESTART));
        CHECK(siginterrupt(number, 0) == 0 && reads(number) == 0);
        CHECK(signal(number, on_signal) == on_signal && reads(number) == 0);
    }
    /* The installed handler of SIGBUS may be the pager's. The program must get its own handler from sigaction(2). */
    struct sigaction action;
    CHECK(signal(SIGBUS, on_signal) == SIG_DFL && siginterrupt(SIGBUS, 1) == 0);
    CHECK(sigaction(SIGBUS, NULL, &action) == 0 && !(action.sa_flags & SA_RESTART));
    CHECK(signal(SIGBUS, on_signal) == on_signal && sigaction(SIGBUS, NULL, &action) == 0);
    CHECK(action.sa_handler == on_signal && !(action.sa_flags & SA_RESTART));
    CHECK(siginterrupt(1000, 1) == -1 && errno == EINVAL);
    CHECK(holds(all, 24 * MIB, 1));
    puts("interrupted");
    return 0;
}
