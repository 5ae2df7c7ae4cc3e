/* Fills an array, increments each word in each lap, reads 2000 words at random, and prints a
   checksum of the words read. Arguments: the size in MiB, the number of laps. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int main(int count, char **words)
{
    if (count != 3)
        return 2;
    uint64_t n = (strtoull(words[1], 0, 10) << 20) / 8, laps = strtoull(words[2], 0, 10);
    uint64_t *array = malloc(n * 8), sum = 0, at = 1;
    if (!array)
        return 3;
    for (uint64_t i = 0; i < n; i++)
        array[i] = i * 0x9e3779b97f4a7c15u;
    for (uint64_t lap = 0; lap < laps; lap++)
        for (uint64_t i = 0; i < n; i++)
            sum = sum * 31 + array[i]++;
    for (int i = 0; i < 2000; i++) {
        at = at * 6364136223846793005u + 1442695040888963407u;
        sum = sum * 31 + array[(at >> 20) % n];
    }
    printf("%016llx\n", (unsigned long long)sum);
    return 0;
}
