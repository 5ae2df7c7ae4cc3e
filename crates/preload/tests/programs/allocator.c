/* A program with its own malloc on top of mmap, like a program that is linked with an allocator. Its malloc
   holds a lock that is not recursive while it calls mmap. A call of malloc by the pager within this mmap would
   deadlock, so enter() aborts the program instead, and the test fails. */
#include "check.h"
#include <pthread.h>

#define ALIGN 64UL

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread int is_inside __attribute__((tls_model("initial-exec")));
static char *arena, *arena_end;
static unsigned long asked;

struct head { size_t bytes, room; char *mapped; };

static void enter(void) {
    if (is_inside) {
        static const char text[] = "malloc was called within malloc\n";
        (void)!write(2, text, sizeof text - 1);
        abort();
    }
    is_inside = 1;
    pthread_mutex_lock(&lock);
}

static void leave(void) {
    pthread_mutex_unlock(&lock);
    is_inside = 0;
}

static void *map(size_t bytes) {
    void *found = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return found == MAP_FAILED ? NULL : found;
}

/* Large blocks are mappings, trimmed to be aligned; small blocks are cut from mappings of 2 MiB, and never reused. */
void *memalign(size_t align, size_t bytes) {
    enter();
    asked++;
    if (align < ALIGN) align = ALIGN;
    size_t room = (bytes + align + ALIGN + PAGE - 1) / PAGE * PAGE;
    char *start = NULL;
    struct head head = {bytes, room, NULL};
    if (room >= 1 << 17) {
        start = map(room + 4 * MIB);
        if (start) {
            char *first = (char *)(((uintptr_t)start + MIB) / PAGE * PAGE);
            munmap(start, first - start);
            munmap(first + room, start + room + 4 * MIB - first - room);
            head.mapped = start = first;
        }
    } else {
        if ((size_t)(arena_end - arena) < room) {
            arena = map(2 * MIB);
            arena_end = arena ? arena + 2 * MIB : NULL;
        }
        if (arena) {
            start = arena;
            arena += (bytes + align + ALIGN + 63) / 64 * 64;
        }
    }
    leave();
    if (!start) {
        errno = ENOMEM;
        return NULL;
    }
    char *block = (char *)(((uintptr_t)start + sizeof head + align - 1) / align * align);
    memcpy(block - sizeof head, &head, sizeof head);
    return block;
}

void *malloc(size_t bytes) { return memalign(ALIGN, bytes); }

void *aligned_alloc(size_t align, size_t bytes) { return memalign(align, bytes); }

int posix_memalign(void **memory, size_t align, size_t bytes) {
    *memory = memalign(align, bytes);
    return *memory ? 0 : ENOMEM;
}

void *calloc(size_t count, size_t bytes) {
    void *block = malloc(count * bytes);
    if (block) memset(block, 0, count * bytes);
    return block;
}

static struct head head_of(void *block) {
    struct head head;
    memcpy(&head, (char *)block - sizeof head, sizeof head);
    return head;
}

size_t malloc_usable_size(void *block) { return block ? head_of(block).bytes : 0; }

void free(void *block) {
    if (!block) return;
    struct head head = head_of(block);
    if (!head.mapped) return;
    enter();
    munmap(head.mapped, head.room);
    leave();
}

void *realloc(void *block, size_t bytes) {
    void *new = malloc(bytes);
    if (new && block) {
        size_t had = head_of(block).bytes;
        memcpy(new, block, had < bytes ? had : bytes);
        free(block);
    }
    return new;
}

static void *works(void *argument) {
    uint64_t seed = (uintptr_t)argument;
    for (int round = 0; round < 3; round++) {
        char *block = malloc(10 * MIB);
        fill(block, 10 * MIB, seed);
        CHECK(madvise((char *)(((uintptr_t)block + PAGE) / PAGE * PAGE), MIB, MADV_DONTNEED) == 0);
        fill(block, 10 * MIB, seed + 1);
        char *small = malloc(100);
        fill(small, 96, seed);
        CHECK(holds(block, 10 * MIB, seed + 1) && holds(small, 96, seed));
        free(block);
    }
    return NULL;
}

int main(void) {
    char *first = malloc(24 * MIB), *more = malloc(60 * MIB);
    fill(first, 24 * MIB, 1);
    fill(more, 60 * MIB, 1);
    CHECK(is_extended(84 * MIB));
    CHECK(holds(more, 60 * MIB, 1));
    free(more);
    pthread_t threads[3];
    for (uintptr_t at = 0; at < 3; at++)
        CHECK(pthread_create(&threads[at], NULL, works, (void *)(at * 10)) == 0);
    for (int at = 0; at < 3; at++) CHECK(pthread_join(threads[at], NULL) == 0);
    CHECK(holds(first, 24 * MIB, 1));
    /* Children that are forked while this allocator's lock is held: an allocation by the pager in such a
       child would abort the child. */
    for (int at = 0; at < 4; at++) {
        pthread_mutex_lock(&lock);
        is_inside = 1;
        pid_t child = at % 2 ? _Fork() : fork();
        if (child == 0) {
            CHECK(holds(first, 24 * MIB, 1));
            fill(first, 12 * MIB, 2);
            CHECK(holds(first, 12 * MIB, 2));
            _exit(3);
        }
        is_inside = 0;
        pthread_mutex_unlock(&lock);
        int status;
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 3);
    }
    first = realloc(first, 40 * MIB);
    CHECK(first && holds(first, 24 * MIB, 1));
    free(first);
    CHECK(asked > 10);
    return 0;
}
