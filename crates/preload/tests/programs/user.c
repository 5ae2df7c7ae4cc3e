/* A program that drops its privileges, as servers do: all its threads must drop them. */
#include "check.h"
#include <dirent.h>
#include <grp.h>

#define BYTES (24 * MIB)
#define OTHER 65534

/* Checks that the status of each thread has this line; returns the number of threads. */
static int all_have(const char *line) {
    DIR *folder = opendir("/proc/self/task");
    CHECK(folder);
    int count = 0;
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (entry->d_name[0] == '.') continue;
        char path[400], text[4096];
        snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
        int fd = open(path, O_RDONLY);
        ssize_t bytes = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
        CHECK(bytes > 0 && close(fd) == 0);
        text[bytes] = 0;
        if (!strstr(text, line)) {
            fprintf(stderr, "%s of %s is in:\n%s", line, entry->d_name, text);
            exit(1);
        }
        count++;
    }
    closedir(folder);
    return count;
}

int main(void) {
    char *block = malloc(BYTES);
    fill(block, BYTES, 1);
    CHECK(!getenv("INTERLEAF_EXTEND") || all_have("Uid:\t0\t0\t0\t0\n") > 1);
    gid_t groups[] = {OTHER, 7};
    CHECK(setgroups(2, groups) == 0);
    all_have("Groups:\t7 65534 \n");
    CHECK(setgid(OTHER) == 0);
    all_have("Gid:\t65534\t65534\t65534\t65534\n");
    CHECK(seteuid(OTHER) == 0);
    all_have("Uid:\t0\t65534\t0\t65534\n");
    CHECK(seteuid(0) == 0);
    all_have("Uid:\t0\t0\t0\t0\n");
    CHECK(setuid(OTHER) == 0);
    all_have("Uid:\t65534\t65534\t65534\t65534\n");
    all_have("CapEff:\t0000000000000000\n");
    CHECK(setuid(0) != 0 && errno == EPERM);
    CHECK(holds(block, BYTES, 1));
    char *more = malloc(BYTES);
    fill(more, BYTES, 2);
    CHECK(holds(block, BYTES, 1) && holds(more, BYTES, 2));
    return 0;
}
