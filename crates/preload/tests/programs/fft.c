/* Forward and backward transforms by FFTW: prints the results, and checks that the input is restored. */
#include <complex.h>
#include <fftw3.h>
#include "numbers.h"

static int there_and_back(const char *name, int rank, const int *sides) {
    size_t n = 1;
    for (int side = 0; side < rank; side++) n *= sides[side];
    fftw_complex *x = fftw_alloc_complex(n);
    if (!x) return 1;
    /* FFTW_ESTIMATE: a plan that is not chosen by timing is the same in every run. */
    fftw_plan there = fftw_plan_dft(rank, sides, x, x, FFTW_FORWARD, FFTW_ESTIMATE);
    fftw_plan back = fftw_plan_dft(rank, sides, x, x, FFTW_BACKWARD, FFTW_ESTIMATE);
    for (size_t at = 0; at < n; at++) x[at] = element(2 * at) + element(2 * at + 1) * I;
    fftw_execute(there);
    uint64_t digest = 0;
    for (size_t at = 0; at < n; at++) digest = mix(mix(digest, creal(x[at])), cimag(x[at]));
    fftw_execute(back);
    double worst = 0;
    for (size_t at = 0; at < n; at++) {
        double complex was = element(2 * at) + element(2 * at + 1) * I;
        worst = fmax(worst, cabs(x[at] / n - was));
    }
    printf("%s %016lx %s\n", name, digest, worst < 1e-12 ? "and back" : "and not back");
    fftw_destroy_plan(there);
    fftw_destroy_plan(back);
    fftw_free(x);
    return worst < 1e-12 ? 0 : 2;
}

int main(int count, char **arguments) {
    int line = 1 << (count > 1 ? atoi(arguments[1]) : 23), side = count > 2 ? atoi(arguments[2]) : 200;
    return there_and_back("line", 1, &line) | there_and_back("cube", 3, (int[]){side, side, side});
}
