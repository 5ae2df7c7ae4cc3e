/* `secret hide MIB` fills memory with words that no other program writes, and waits for a signal;
 * `secret look MIB` maps memory three times, and checks that all of it is zero each time. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SECRET 0x5ec2e75ec2e75ec2u

static uint64_t *taken(size_t bytes)
{
	uint64_t *memory = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		exit(2);
	return memory;
}

static void filled(uint64_t *memory, size_t bytes)
{
	for (size_t at = 0; at < bytes / 8; at++)
		memory[at] = SECRET ^ at;
}

int main(int count, char **words)
{
	if (count != 3)
		return 2;
	size_t bytes = strtoul(words[2], 0, 10) << 20;
	if (!strcmp(words[1], "hide")) {
		filled(taken(bytes), bytes);
		puts("there");
		fflush(stdout);
		for (;;)
			pause();
	}
	for (int round = 0; round < 3; round++) {
		uint64_t *memory = taken(bytes);
		for (size_t at = 0; at < bytes / 8; at++)
			if (memory[at]) {
				printf("word %zu is %llx\n", at, (unsigned long long)memory[at]);
				return 1;
			}
		filled(memory, bytes);
		munmap(memory, bytes);
	}
	puts("nothing is seen");
	return 0;
}
