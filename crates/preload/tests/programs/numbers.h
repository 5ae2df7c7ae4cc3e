/* Numbers that are the same in every run, and a digest of results. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t mix(uint64_t digest, double value) {
    union { double value; uint64_t bits; } both = {value};
    digest = (digest ^ both.bits) * 0x9e3779b97f4a7c15UL;
    return digest ^ digest >> 29;
}

static double element(size_t at) {
    uint64_t x = (at + 1) * 0x9e3779b97f4a7c15UL;
    x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9UL;
    return (double)(x >> 40) / (1 << 24) - 0.5;
}
