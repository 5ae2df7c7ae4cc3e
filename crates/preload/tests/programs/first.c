/* The first large allocation and its first touch, by a thread that holds locks or is in a signal handler. */
#include "check.h"
#include <dlfcn.h>
#include <pthread.h>

#define BYTES (24 * MIB)

static void *volatile block;

static void allocate(void) {
    char *one = malloc(BYTES);
    CHECK(one);
    fill(one, BYTES, 5);
    block = one;
}

#ifdef PLUGIN
/* Compiled as a plug-in: the constructor runs while the dynamic loader holds its lock. */
__attribute__((constructor)) static void begin(void) {
    allocate();
}

void *plugin(void) {
    return block;
}
#else
static void map(void) {
    char *one = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(one != MAP_FAILED);
    fill(one, BYTES, 5);
    block = one;
}

static void on_signal(int signal) {
    (void)signal;
    map();
}

static void *loads(void *path) {
    void *library = dlopen(path, RTLD_NOW);
    CHECK(library);
    void *(*plugin)(void) = (void *(*)(void))dlsym(library, "plugin");
    CHECK(plugin);
    block = plugin();
    return NULL;
}

#ifdef CONSTRUCTOR
__attribute__((constructor)) static void begin(void) {
    allocate();
}
#endif

static int outcome(pid_t child) {
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

static volatile int is_over;

/* Keeps the locks of thread creation and of the allocator busy. */
static void *starts(void *argument) {
    (void)argument;
    while (!is_over) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, (void *(*)(void *))getpid, NULL) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
        free(malloc(1000));
    }
    return NULL;
}

int main(int count, char **arguments) {
    CHECK(count >= 2);
    const char *where = arguments[1];
    if (strcmp(where, "plugin") == 0) {
        CHECK(count == 3);
        loads(arguments[2]);
    } else if (strcmp(where, "thread") == 0) {
        pthread_t thread;
        CHECK(count == 3 && pthread_create(&thread, NULL, loads, arguments[2]) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    } else if (strcmp(where, "handler") == 0) {
        struct sigaction action = {.sa_handler = on_signal};
        CHECK(sigaction(SIGALRM, &action, NULL) == 0);
        /* The signal interrupts the thread in the allocator or in the creation of a thread. */
        ualarm(3000, 0);
        while (!block) {
            pthread_t thread;
            CHECK(pthread_create(&thread, NULL, (void *(*)(void *))getpid, NULL) == 0);
            CHECK(pthread_join(thread, NULL) == 0);
            free(malloc(1000));
        }
    } else if (strcmp(where, "fork") == 0) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, starts, NULL) == 0);
        /* A thread may hold locks of the C library at the fork. Functions that need these locks do not work in
           the child. */
        for (int at = 0; at < 20; at++) {
            pid_t child = _Fork();
            if (child == 0) {
                map();
                CHECK(holds(block, BYTES, 5));
                _exit(7);
            }
            CHECK(outcome(child) == 7);
        }
        map();
        for (int at = 0; at < 20; at++) {
            pid_t child = _Fork();
            if (child == 0) _exit(holds(block, BYTES, 5) ? 7 : 1);
            CHECK(outcome(child) == 7);
        }
        is_over = 1;
        CHECK(pthread_join(thread, NULL) == 0);
    } else if (strcmp(where, "vfork") == 0) {
        pid_t child = vfork();
        if (child == 0) {
            map();
            _exit(4);
        }
        CHECK(outcome(child) == 4 && holds(block, BYTES, 5));
        allocate();
    } else if (strcmp(where, "exit") == 0) {
        /* The process ends when the program's last thread ends; the pager's threads do not count. */
        allocate();
        pthread_exit(NULL);
    } else {
        CHECK(strcmp(where, "constructor") == 0 && block);
    }
    CHECK(holds(block, BYTES, 5));
    /* A later allocation is extended too. */
    char *more = malloc(3 * BYTES);
    fill(more, 3 * BYTES, 6);
    CHECK(is_extended(3 * BYTES));
    CHECK(holds(block, BYTES, 5) && holds(more, 3 * BYTES, 6));
    printf("%s\n", where);
    return 0;
}
#endif
