/* A fast Fourier transform and an LU factorisation with pivots, both larger than the budget: prints
   digests of all bits of the results. */
#include "check.h"
#include <complex.h>
#include <math.h>

/* A digest of all words and their order. */
static uint64_t digest(const void *memory, size_t bytes) {
    const uint64_t *words = memory;
    uint64_t sum = 0;
    for (size_t at = 0; at < bytes / 8; at++) sum = (sum ^ words[at]) * 0x100000001b3UL + at;
    return sum;
}

static void transform(double complex *x, size_t n) {
    for (size_t i = 1, j = 0; i < n; i++) {
        size_t bit = n >> 1;
        for (; j & bit; bit >>= 1) j ^= bit;
        j ^= bit;
        if (i < j) {
            double complex swap = x[i];
            x[i] = x[j];
            x[j] = swap;
        }
    }
    for (size_t length = 2; length <= n; length <<= 1) {
        double complex root = cexp(-2 * M_PI * I / length);
        for (size_t i = 0; i < n; i += length) {
            double complex factor = 1;
            for (size_t k = 0; k < length / 2; k++) {
                double complex even = x[i + k], odd = x[i + k + length / 2] * factor;
                x[i + k] = even + odd;
                x[i + k + length / 2] = even - odd;
                factor *= root;
            }
        }
    }
}

static int factorise(double *a, size_t n) {
    int swaps = 0;
    for (size_t k = 0; k < n; k++) {
        size_t pivot = k;
        for (size_t i = k + 1; i < n; i++)
            if (fabs(a[i * n + k]) > fabs(a[pivot * n + k])) pivot = i;
        if (pivot != k) {
            swaps++;
            for (size_t j = 0; j < n; j++) {
                double swap = a[k * n + j];
                a[k * n + j] = a[pivot * n + j];
                a[pivot * n + j] = swap;
            }
        }
        for (size_t i = k + 1; i < n; i++) {
            double factor = a[i * n + k] /= a[k * n + k];
            for (size_t j = k + 1; j < n; j++) a[i * n + j] -= factor * a[k * n + j];
        }
    }
    return swaps;
}

int main(void) {
    size_t n = 1 << 20;
    double complex *x = malloc(n * sizeof *x);
    for (size_t at = 0; at < n; at++) x[at] = (double)(word(at, 1) >> 40) / (1 << 24) - 0.5;
    transform(x, n);
    printf("transform %lx\n", digest(x, n * sizeof *x));
    free(x);
    size_t side = 700;
    double *a = malloc(side * side * sizeof *a * 3);
    for (size_t at = 0; at < side * side; at++) a[at] = (double)(word(at, 2) >> 40) / (1 << 24);
    int swaps = factorise(a, side);
    printf("factors %d %lx\n", swaps, digest(a, side * side * sizeof *a));
    return 0;
}
