/* Uses all of interleaf.h, with valid and with invalid arguments. */
#include "interleaf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what)                                                                    \
    do {                                                                               \
        if (!(what)) {                                                                 \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #what, interleaf_message()); \
            exit(1);                                                                   \
        }                                                                              \
    } while (0)

#define MIB ((size_t)1 << 20)

static void refuses_what_is_wrong(const char *store)
{
    const char *stores[2] = {store, "/nowhere/at/all"};
    interleaf_options options = {sizeof options, 16 * MIB, 0, stores, 2};
    interleaf_pager *pager = NULL;
    CHECK(interleaf_open(&options, &pager) == INTERLEAF_STORE);
    CHECK(strstr(interleaf_message(), "/nowhere/at/all") != NULL);
    CHECK(strstr(interleaf_message(), "hint: ") != NULL);
    options.store_count = 0;
    CHECK(interleaf_open(&options, &pager) == INTERLEAF_BAD_ARGUMENT);
    options.store_count = 1;
    options.dram_bytes = 4096;
    CHECK(interleaf_open(&options, &pager) == INTERLEAF_BAD_ARGUMENT);
    CHECK(strstr(interleaf_message(), "4096") != NULL);
    options.dram_bytes = 16 * MIB;
    options.address_bytes = ((uint64_t)16 << 40) + 1;
    CHECK(interleaf_open(&options, &pager) == INTERLEAF_BAD_ARGUMENT);
    CHECK(strstr(interleaf_message(), "16 TiB") != NULL);
    options.address_bytes = 0;
    options.size = 8;
    CHECK(interleaf_open(&options, &pager) == INTERLEAF_BAD_ARGUMENT);
    CHECK(interleaf_open(NULL, &pager) == INTERLEAF_BAD_ARGUMENT);
    CHECK(pager == NULL);
    interleaf_close(pager);
}

static void keeps_more_than_fits(interleaf_pager *pager, interleaf_advice advice)
{
    size_t words = 64 * MIB / sizeof(uint64_t), at;
    uint64_t *array = NULL;
    void *memory = NULL;
    CHECK(interleaf_alloc(pager, 64 * MIB, 0, &memory) == INTERLEAF_OK);
    array = (uint64_t *)memory;
    CHECK(interleaf_advise(pager, array, 64 * MIB, advice) == INTERLEAF_OK);
    for (at = 0; at < words; at++) {
        CHECK(array[at] == 0);
        array[at] = at * 0x9e3779b97f4a7c15u;
    }
    CHECK(interleaf_advise(pager, array, MIB, INTERLEAF_WILL_NEED) == INTERLEAF_OK);
    for (at = 0; at < words; at++) {
        CHECK(array[at] == at * 0x9e3779b97f4a7c15u);
    }
    /* A discarded range need not be page-aligned; the bytes beside it keep their content. */
    CHECK(interleaf_discard(pager, array + 100, MIB) == INTERLEAF_OK);
    for (at = 0; at < 2 * MIB / sizeof(uint64_t); at++) {
        int is_within = at >= 100 && at < 100 + MIB / sizeof(uint64_t);
        CHECK(array[at] == (is_within ? 0 : at * 0x9e3779b97f4a7c15u));
    }
    CHECK(interleaf_advise(pager, array, 64 * MIB, INTERLEAF_DONE_WITH) == INTERLEAF_OK);
    CHECK(array[words - 1] == (words - 1) * 0x9e3779b97f4a7c15u);
    CHECK(interleaf_free(pager, memory) == INTERLEAF_OK);
    CHECK(interleaf_free(pager, memory) == INTERLEAF_BAD_ARGUMENT);
}

/* A child may free its parent's regions and close its pager, as programs do at their end. */
static void is_closed_by_a_child(interleaf_pager *pager, void *memory)
{
    pid_t child = fork();
    int status = -1;
    if (child == 0) {
        void *more = NULL;
        CHECK(interleaf_alloc(pager, MIB, 0, &more) == INTERLEAF_BAD_ARGUMENT);
        CHECK(strstr(interleaf_message(), "parent") != NULL);
        CHECK(interleaf_free(pager, memory) == INTERLEAF_OK);
        interleaf_close(pager);
        exit(0);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(int count, char **arguments)
{
    interleaf_options options = {0, 0, 0, NULL, 0};
    interleaf_statistics statistics;
    interleaf_pager *pager = NULL;
    const char *stores[1];
    void *memory = NULL;
    CHECK(count == 2);
    refuses_what_is_wrong(arguments[1]);
    stores[0] = arguments[1];
    options.size = sizeof options;
    options.dram_bytes = 16 * MIB;
    options.address_bytes = (uint64_t)1 << 30;
    options.stores = stores;
    options.store_count = 1;
    CHECK(interleaf_open(&options, &pager) == INTERLEAF_OK);
    keeps_more_than_fits(pager, INTERLEAF_NORMAL);
    keeps_more_than_fits(pager, INTERLEAF_SEQUENTIAL);
    keeps_more_than_fits(pager, INTERLEAF_RANDOM);

    CHECK(interleaf_alloc(pager, (size_t)2 << 30, 0, &memory) == INTERLEAF_NO_MEMORY);
    CHECK(interleaf_alloc(pager, 0, 0, &memory) == INTERLEAF_BAD_ARGUMENT);
    CHECK(interleaf_alloc(pager, 1, 3, &memory) == INTERLEAF_BAD_ARGUMENT);
    CHECK(interleaf_alloc(pager, 1, 8 * MIB, &memory) == INTERLEAF_OK);
    CHECK((uintptr_t)memory % (8 * MIB) == 0);
    *(char *)memory = 5;
    is_closed_by_a_child(pager, memory);
    CHECK(*(char *)memory == 5);
    CHECK(interleaf_advise(pager, memory, 2, INTERLEAF_NORMAL) == INTERLEAF_BAD_ARGUMENT);
    CHECK(interleaf_advise(pager, memory, 1, (interleaf_advice)7) == INTERLEAF_BAD_ARGUMENT);
    CHECK(interleaf_discard(pager, &statistics, 1) == INTERLEAF_BAD_ARGUMENT);
    CHECK(interleaf_free(pager, NULL) == INTERLEAF_OK);
    CHECK(interleaf_get_statistics(pager, &statistics, 3) == INTERLEAF_BAD_ARGUMENT);
    CHECK(interleaf_get_statistics(pager, &statistics, sizeof statistics) == INTERLEAF_OK);
    CHECK(statistics.read > 0 && statistics.written > 0 && statistics.faults > 0);
    CHECK(interleaf_version()[0] != '\0');
    interleaf_close(pager);
    puts("all is as the header says");
    return 0;
}
