/* Sweeps over MIB of memory LAPS times, and checks that each word has its value of the previous lap.
 * With the third argument "stdin" it waits after the first lap until its stdin is closed. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void wait_for_end_of_stdin(void)
{
	char byte;
	ssize_t got;
	do
		got = read(0, &byte, 1);
	while (got > 0 || (got < 0 && errno == EINTR));
}

int main(int count, char **words)
{
	size_t length = strtoul(words[1], 0, 10) << 17;
	int laps = atoi(words[2]);
	uint64_t *memory = malloc(length * 8);
	if (!memory)
		return 2;
	for (int lap = 0; lap < laps; lap++) {
		for (size_t at = 0; at < length; at++) {
			uint64_t word = at * 0x9e3779b97f4a7c15;
			if (lap && memory[at] != word + lap - 1) {
				printf("word %zu in lap %d is wrong\n", at, lap);
				return 1;
			}
			memory[at] = word + lap;
		}
		if (lap == 0 && count > 3 && !strcmp(words[3], "stdin")) {
			puts("there");
			fflush(stdout);
			wait_for_end_of_stdin();
		}
	}
	puts("as it was left");
	return 0;
}
