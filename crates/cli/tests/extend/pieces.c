/* Allocates COUNT blocks of BYTES each, writes all bytes of each block twice, and waits for 0.3 s, so
 * that the resident memory can be sampled. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *all[1 << 18];

int main(int count, char **words)
{
	size_t pieces = strtoul(words[1], 0, 10), length = strtoul(words[2], 0, 10);
	if (count != 3 || pieces > sizeof all / sizeof *all)
		return 2;
	for (size_t at = 0; at < pieces; at++)
		if (!(all[at] = malloc(length)))
			return 2;
	for (int lap = 1; lap < 3; lap++)
		for (size_t at = 0; at < pieces; at++)
			memset(all[at], lap, length);
	usleep(300000);
	for (size_t at = 0; at < pieces; at++)
		if (all[at][length / 2] != 2)
			return 1;
	return 0;
}
