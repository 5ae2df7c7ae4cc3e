/* An io_uring transfers all of the memory to a file and back, with and without the page cache. Then a part of the
   memory is a registered buffer, whose pages are pinned, and later protected. The argument is a file, which the program creates. */
#include "check.h"
#include <fcntl.h>
#include <linux/io_uring.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#define BYTES (48 * MIB)
#define HELD (4 * MIB)

static struct io_uring_params has;
static int ring;
static char *asked, *done;
static struct io_uring_sqe *entries;

static unsigned *in(char *base, unsigned at) {
    return (unsigned *)(base + at);
}

static void *mapped(size_t bytes, off_t what) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, what);
    CHECK(memory != MAP_FAILED);
    return memory;
}

/* Submits one request and waits for its completion. */
static void transfer(int what, int file, char *memory, size_t bytes, size_t at) {
    unsigned *tail = in(asked, has.sq_off.tail), *head = in(done, has.cq_off.head);
    unsigned slot = *tail & *in(asked, has.sq_off.ring_mask);
    memset(&entries[slot], 0, sizeof entries[slot]);
    entries[slot].opcode = what;
    entries[slot].fd = file;
    entries[slot].addr = (uintptr_t)memory;
    entries[slot].len = bytes;
    entries[slot].off = at;
    in(asked, has.sq_off.array)[slot] = slot;
    __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
    CHECK(syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) == 1);
    struct io_uring_cqe *all = (struct io_uring_cqe *)(done + has.cq_off.cqes);
    CHECK(all[*head & *in(done, has.cq_off.ring_mask)].res == (int)bytes);
    __atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
}

static void through(char *all, const char *path, int flags) {
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC | flags, 0600);
    CHECK(file >= 0 && unlink(path) == 0);
    fill(all, BYTES, 1);
    for (size_t at = 0; at < BYTES; at += MIB)
        transfer(IORING_OP_WRITE, file, all + at, MIB, at);
    memset(all, 0, BYTES);
    for (size_t at = 0; at < BYTES; at += MIB)
        transfer(IORING_OP_READ, file, all + at, MIB, at);
    CHECK(holds(all, BYTES, 1));
    close(file);
}

static void held(char *all, const char *path) {
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(file >= 0 && unlink(path) == 0);
    struct iovec part = {all, HELD};
    /* A loop larger than the budget: most pages are evicted right after use, even the pages to be pinned. */
    for (int lap = 0; lap < 6; lap++)
        CHECK(holds(all, BYTES, 1));
    CHECK(syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, &part, 1) == 0);
    for (int lap = 0; lap < 3; lap++) {
        fill(all, BYTES, lap);
        transfer(IORING_OP_WRITE_FIXED, file, all, HELD, 0);
        memset(all, 0, HELD);
        transfer(IORING_OP_READ_FIXED, file, all, HELD, 0);
        CHECK(holds(all, BYTES, lap));
    }
    CHECK(syscall(SYS_io_uring_register, ring, IORING_UNREGISTER_BUFFERS, NULL, 0) == 0);
    fill(all, BYTES, 9);
    CHECK(holds(all, BYTES, 9));
    close(file);
}

/* Pinned pages of other protections keep their content and their protection. */
static void protected(char *all) {
    struct iovec part = {all, HELD};
    fill(all, BYTES, 20);
    CHECK(syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, &part, 1) == 0);
    CHECK(mprotect(all, HELD / 2, PROT_READ) == 0);
    CHECK(mprotect(all + HELD / 2, HELD / 4, PROT_NONE) == 0);
    for (int lap = 0; lap < 3; lap++) {
        CHECK(holds(all, HELD / 2, 20));
        fill(all + HELD, BYTES - HELD, lap);
        CHECK(holds(all + HELD, BYTES - HELD, lap));
    }
    CHECK(syscall(SYS_io_uring_register, ring, IORING_UNREGISTER_BUFFERS, NULL, 0) == 0);
    fill(all + HELD, BYTES - HELD, 21);
    CHECK(is_fault(all + PAGE, 1) && is_fault(all + HELD / 2 + PAGE, 0));
    CHECK(mprotect(all, HELD, PROT_READ | PROT_WRITE) == 0);
    CHECK(holds(all, HELD, 20) && holds(all + HELD, BYTES - HELD, 21));
}

int main(int count, char **words) {
    CHECK(count == 2);
    char *all = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(all != MAP_FAILED);
    ring = syscall(SYS_io_uring_setup, 8, &has);
    if (ring < 0)
        return 0; /* The system does not allow io_uring: nothing can be tested. */
    asked = mapped(has.sq_off.array + has.sq_entries * sizeof(unsigned), IORING_OFF_SQ_RING);
    done = mapped(has.cq_off.cqes + has.cq_entries * sizeof(struct io_uring_cqe), IORING_OFF_CQ_RING);
    entries = mapped(has.sq_entries * sizeof *entries, IORING_OFF_SQES);
    through(all, words[1], 0);
    through(all, words[1], O_DIRECT);
    held(all, words[1]);
    protected(all);
    return 0;
}
