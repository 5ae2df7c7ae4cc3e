/* A system of equations by LAPACK (dgetrf, dgetrs): the solution, and its residual. */
#include "numbers.h"

void dgetrf_(int *, int *, double *, int *, int *, int *);
void dgetrs_(char *, int *, int *, double *, int *, int *, double *, int *, int *);

int main(int count, char **arguments) {
    int n = count > 1 ? atoi(arguments[1]) : 4096, one = 1, info, *pivots = malloc(n * sizeof *pivots);
    size_t all = (size_t)n * n;
    double *a = malloc(all * sizeof *a), *x = malloc(n * sizeof *x);
    if (!a || !x || !pivots) return 1;
    for (size_t at = 0; at < all; at++) a[at] = element(at);
    for (int row = 0; row < n; row++) {
        x[row] = 0;
        for (int column = 0; column < n; column++) x[row] += a[row + (size_t)column * n];
    }
    dgetrf_(&n, &n, a, &n, pivots, &info);
    if (info) return 2;
    dgetrs_("N", &n, &one, a, &n, pivots, x, &n, &info);
    if (info) return 3;
    uint64_t digest = 0;
    double worst = 0;
    for (size_t at = 0; at < all; at++) digest = mix(digest, a[at]);
    for (int row = 0; row < n; row++) digest = mix(digest, x[row]), worst = fmax(worst, fabs(x[row] - 1));
    printf("%016lx %s\n", digest, worst < 1e-6 ? "solves" : "does not solve");
    return worst < 1e-6 ? 0 : 4;
}
