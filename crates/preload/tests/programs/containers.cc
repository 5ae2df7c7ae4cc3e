/* C++: `new` with and without an alignment, and containers that grow. */
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <unordered_map>
#include <vector>

static void check(bool is_right, const char *what) {
    if (!is_right) {
        std::fprintf(stderr, "%s\n", what);
        std::exit(1);
    }
}

struct alignas(4096) Page {
    uint64_t words[512];
};

int main() {
    std::vector<uint64_t> grows;
    for (uint64_t at = 0; at < 4'000'000; at++) grows.push_back(at * 0x9e3779b97f4a7c15UL);
    for (uint64_t at = 0; at < grows.size(); at++)
        check(grows[at] == at * 0x9e3779b97f4a7c15UL, "a vector grows");
    std::sort(grows.begin(), grows.end());
    check(std::is_sorted(grows.begin(), grows.end()), "a vector is sorted");
    Page *pages = new Page[4096];
    check(reinterpret_cast<uintptr_t>(pages) % 4096 == 0, "new is aligned");
    for (uint64_t at = 0; at < 4096; at++) pages[at].words[at % 512] = at;
    for (uint64_t at = 0; at < 4096; at++) check(pages[at].words[at % 512] == at, "pages");
    delete[] pages;
    std::unordered_map<uint64_t, uint64_t> table;
    table.reserve(3'000'000);
    for (uint64_t at = 0; at < 20'000; at++) table[grows[at * 13]] = at;
    uint64_t sum = 0;
    for (uint64_t at = 0; at < 20'000; at++) sum += table.at(grows[at * 13]);
    std::printf("%lu\n", sum);
    char *bytes = new (std::nothrow) char[1UL << 60];
    check(bytes == nullptr, "what cannot be had is not given");
    return 0;
}
