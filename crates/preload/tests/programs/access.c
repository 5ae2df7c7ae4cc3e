/* The kernel, other threads and signal handlers access pages that are not resident. */
#include "check.h"
#include <pthread.h>
#include <semaphore.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define BYTES (24 * MIB)

static char *all, *more;
static size_t pages;

/* Touches more than the budget, so that all other pages are evicted. */
static void drive_out(void) {
    fill(more, BYTES, 2);
    CHECK(holds(more, BYTES, 2));
}

static void reads(const char *file) {
    int fd = open(file, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0);
    fill(all, BYTES, 1);
    drive_out();
    CHECK(write(fd, all, BYTES) == (ssize_t)BYTES);
    memset(all, 0, BYTES);
    drive_out();
    CHECK(pread(fd, all, BYTES, 0) == (ssize_t)BYTES && holds(all, BYTES, 1));
    drive_out();
    struct iovec parts[2] = {{all + MIB, MIB}, {all + 5 * MIB, MIB}};
    CHECK(preadv(fd, parts, 2, MIB) == 2 * (ssize_t)MIB);
    CHECK(memcmp(all + 5 * MIB, all + 2 * MIB, MIB) == 0);
    close(fd);
    /* With O_DIRECT the drive transfers the pages themselves, without the page cache. */
    char *aligned = (char *)(((uintptr_t)all + PAGE) / PAGE * PAGE);
    fd = open(file, O_RDWR | O_DIRECT);
    CHECK(fd >= 0);
    fill(aligned, 8 * MIB, 3);
    drive_out();
    CHECK(pwrite(fd, aligned, 8 * MIB, 0) == 8 * (ssize_t)MIB);
    memset(aligned, 0, 8 * MIB);
    drive_out();
    CHECK(pread(fd, aligned, 8 * MIB, 0) == 8 * (ssize_t)MIB && holds(aligned, 8 * MIB, 3));
    close(fd);
}

static void *sends(void *socket) {
    for (size_t done = 0; done < 8 * MIB;) {
        ssize_t sent = send(*(int *)socket, all + done, 8 * MIB - done, 0);
        CHECK(sent > 0);
        done += sent;
    }
    return NULL;
}

static void sockets(void) {
    int pair[2];
    pthread_t thread;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    fill(all, BYTES, 4);
    drive_out();
    CHECK(pthread_create(&thread, NULL, sends, &pair[0]) == 0);
    for (size_t done = 0; done < 8 * MIB;) {
        ssize_t got = recv(pair[1], all + 10 * MIB + done, 8 * MIB - done, 0);
        CHECK(got > 0);
        done += got;
    }
    pthread_join(thread, NULL);
    CHECK(memcmp(all, all + 10 * MIB, 8 * MIB) == 0);
}

static void processes(void) {
    fill(all, BYTES, 5);
    drive_out();
    char *small = malloc(MIB / 2);
    struct iovec to = {small, MIB / 2}, from = {all + 3 * MIB, MIB / 2};
    CHECK(process_vm_readv(getpid(), &to, 1, &from, 1, 0) == MIB / 2);
    CHECK(memcmp(small, all + 3 * MIB, MIB / 2) == 0);
    memset(small, 7, MIB / 2);
    drive_out();
    CHECK(process_vm_writev(getpid(), &to, 1, &from, 1, 0) == MIB / 2);
    CHECK(memcmp(small, all + 3 * MIB, MIB / 2) == 0);
    /* A read of /proc/self/mem does not wait for the pager: it returns EIO for a page that is not resident,
       and the right content of a resident page. */
    int fd = open("/proc/self/mem", O_RDWR);
    uint64_t value;
    drive_out();
    for (size_t at = 0; at < BYTES / 8; at += 20000) {
        ssize_t got = pread(fd, &value, 8, (off_t)(uintptr_t)(all + at * 8));
        int is_right = value == ((volatile uint64_t *)all)[at];
        CHECK(got == -1 ? errno == EIO : is_right);
        /* A touched page is resident, unless it is evicted before the kernel reads it. */
        for (int tries = 0; pread(fd, &value, 8, (off_t)(uintptr_t)(all + at * 8)) != 8; tries++) {
            CHECK(errno == EIO && tries < 100);
            (void)((volatile uint64_t *)all)[at];
        }
        CHECK(value == ((uint64_t *)all)[at]);
    }
    close(fd);
    free(small);
}

static volatile sig_atomic_t signals;

static void on_signal(int signal) {
    (void)signal;
    /* Each signal touches a different page. */
    size_t page = (size_t)signals * 37 % pages;
    if (((uint64_t *)all)[page * PAGE / 8] != word(page * PAGE / 8, 6)) _exit(9);
    signals++;
}

static void *touches(void *argument) {
    size_t seed = (size_t)argument;
    for (int round = 0; round < 20000; round++) {
        size_t at = word(round, seed) % (BYTES / 8);
        CHECK(((uint64_t *)all)[at] == word(at, 6));
    }
    return NULL;
}

static void threads(void) {
    pthread_t thread[8];
    fill(all, BYTES, 6);
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    for (size_t at = 0; at < 8; at++)
        CHECK(pthread_create(&thread[at], NULL, touches, (void *)at) == 0);
    for (int round = 0; round < 1000; round++) {
        CHECK(pthread_kill(thread[round % 8], SIGUSR1) == 0 || round > 100);
        CHECK(kill(getpid(), SIGUSR1) == 0);
    }
    for (size_t at = 0; at < 8; at++) pthread_join(thread[at], NULL);
    CHECK(signals > 0 && holds(all, BYTES, 6));
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    all = malloc(BYTES);
    more = malloc(BYTES);
    pages = BYTES / PAGE;
    reads(arguments[1]);
    sockets();
    processes();
    threads();
    return 0;
}
