/* Common parts of the programs: arrays with known content, and a check that prints its condition and ends
   the program if the condition is false. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1UL << 20)
#define PAGE 4096UL

#define CHECK(what) do { \
    if (!(what)) { \
        fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #what, strerror(errno)); \
        exit(1); \
    } \
} while (0)

static inline uint64_t word(uint64_t at, uint64_t seed) {
    uint64_t x = at * 0x9e3779b97f4a7c15UL + seed;
    x ^= x >> 29;
    return x * 0xbf58476d1ce4e5b9UL;
}

static inline void fill(void *memory, size_t bytes, uint64_t seed) {
    uint64_t *words = memory;
    for (size_t at = 0; at < bytes / 8; at++) words[at] = word(at, seed);
}

/* True if all words have the values of `fill`. */
static inline int holds(const void *memory, size_t bytes, uint64_t seed) {
    const uint64_t *words = memory;
    for (size_t at = 0; at < bytes / 8; at++)
        if (words[at] != word(at, seed)) {
            fprintf(stderr, "word %zu of %p is %lx\n", at, memory, words[at]);
            return 0;
        }
    return 1;
}

static inline int is_zero(const void *memory, size_t bytes) {
    const uint64_t *words = memory;
    for (size_t at = 0; at < bytes / 8; at++)
        if (words[at]) {
            fprintf(stderr, "word %zu of %p is %lx\n", at, memory, words[at]);
            return 0;
        }
    return 1;
}

/* True if less than `bytes` are resident, or if memory is not extended. Allocates nothing. */
static inline int is_extended(size_t bytes) {
    char text[100] = "";
    int fd = open("/proc/self/statm", O_RDONLY);
    CHECK(fd >= 0 && read(fd, text, sizeof text - 1) > 0 && close(fd) == 0);
    char *second = strchr(text, ' ');
    return !getenv("INTERLEAF_EXTEND") || strtoul(second, NULL, 10) * PAGE < bytes;
}

/* True if a read or a write of this address raises SIGSEGV; a child makes the access. */
static inline int is_fault(volatile char *address, int writes) {
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        if (writes) *address = 1; else (void)*address;
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}
