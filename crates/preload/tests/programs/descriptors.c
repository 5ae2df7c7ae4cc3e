/* A program opens files of its own under low numbers, and closes all descriptors, as shells and daemons do. No page
   reaches its files, and all memory keeps its content. The argument is a file, which the program creates. */
#include "check.h"
#include <linux/close_range.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/uio.h>

#define BYTES (32 * MIB)
#define FILE_BYTES (64 * 1024UL)

static char content[FILE_BYTES];

static void write_file(const char *name) {
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    fill(content, FILE_BYTES, 99);
    CHECK(fd >= 0 && write(fd, content, FILE_BYTES) == (ssize_t)FILE_BYTES && close(fd) == 0);
}

static int has_content(const char *name) {
    int fd = open(name, O_RDONLY);
    CHECK(fd >= 0);
    memset(content, 0, FILE_BYTES);
    int is_same = read(fd, content, FILE_BYTES) == (ssize_t)FILE_BYTES && holds(content, FILE_BYTES, 99);
    is_same = is_same && read(fd, content, 1) == 0;
    CHECK(close(fd) == 0);
    return is_same;
}

/* Uses all of the memory, so that pages are written back and read again. */
static void use(char *memory, uint64_t seed) {
    fill(memory, BYTES, seed);
    CHECK(holds(memory, BYTES, seed));
}

/* The kernel must send the content that the memory had at the call of vmsplice(2), although other memory is
   used before the pipe is read. */
static void splice_into_pipe(char *memory) {
    static char received[FILE_BYTES];
    int ends[2];
    CHECK(pipe(ends) == 0);
    fill(memory, FILE_BYTES, 7);
    struct iovec piece = {memory, FILE_BYTES};
    ssize_t sent = vmsplice(ends[1], &piece, 1, 0);
    CHECK(sent > 0);
    use(memory + MIB, 8);
    for (ssize_t got = 0; got < sent;) {
        ssize_t more = read(ends[0], received + got, sent - got);
        CHECK(more > 0);
        got += more;
    }
    CHECK(holds(received, sent / 8 * 8, 7));
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
}

/* With SPLICE_F_NONBLOCK, vmsplice(2) fails on a full named pipe instead of waiting. */
static void splice_into_full_fifo(char *memory) {
    CHECK(mkfifo("fifo", 0600) == 0);
    int fifo = open("fifo", O_RDWR);
    CHECK(fifo >= 0 && unlink("fifo") == 0);
    struct iovec piece = {memory, FILE_BYTES};
    ssize_t sent;
    do sent = vmsplice(fifo, &piece, 1, SPLICE_F_NONBLOCK); while (sent > 0);
    CHECK(sent == -1 && errno == EAGAIN);
    CHECK(close(fifo) == 0);
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    char *memory = malloc(BYTES + MIB);
    CHECK(memory);
    use(memory, 1);
    write_file(arguments[1]);
    int file = open(arguments[1], O_RDWR);
    CHECK(file >= 0);
    for (int fd = 3; fd < 40; fd++)
        CHECK(fd == file || dup2(file, fd) == fd);
    /* The pager's descriptors have higher numbers, and no copy of them can be made. Other high numbers may be inherited. */
    for (int fd = 40; fd < sysconf(_SC_OPEN_MAX); fd++) {
        char path[32], target[64] = "";
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        if (readlink(path, target, sizeof target - 1) > 0 && strstr(target, "userfaultfd"))
            CHECK(dup2(fd, 39) == -1 && errno == EBADF);
    }
    use(memory, 2);
    CHECK(has_content(arguments[1]));
    for (int fd = 3; fd < sysconf(_SC_OPEN_MAX); fd++) close(fd);
    CHECK(close(3) == -1 && errno == EBADF);
    use(memory, 3);
    closefrom(3);
    use(memory, 4);
    CHECK(close_range(3, ~0U, 0) == 0);
    CHECK(close_range(9, 3, 0) == -1 && errno == EINVAL);
    CHECK(close_range(3, ~0U, CLOSE_RANGE_UNSHARE) == 0 && unshare(CLONE_FILES) == 0);
    use(memory, 5);
    pid_t child = fork();
    if (child == 0) {
        closefrom(3);
        CHECK(holds(memory, BYTES, 5));
        use(memory, 6);
        _exit(0);
    }
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    CHECK(holds(memory, BYTES, 5));
    splice_into_pipe(memory);
    splice_into_full_fifo(memory);
    CHECK(has_content(arguments[1]));
    puts("no page reached a file of the program");
    return 0;
}
