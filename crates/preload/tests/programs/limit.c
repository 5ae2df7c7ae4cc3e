/* Memory of more than the budget while the limit of descriptors is lower than the number of those that are open,
   as in a sandbox. */
#include "check.h"
#include <sys/resource.h>

#define BYTES (40 * MIB)

int main(void) {
    char *all = malloc(BYTES);
    fill(all, BYTES, 3);
    CHECK(is_extended(BYTES));
    for (rlim_t limit = 3; limit-- > 0;) {
        struct rlimit both = {limit, limit};
        CHECK(setrlimit(RLIMIT_NOFILE, &both) == 0);
        CHECK(holds(all, BYTES, limit + 1));
        fill(all, BYTES, limit);
    }
    CHECK(holds(all, BYTES, 0));
    puts("served without new descriptors");
    return 0;
}
