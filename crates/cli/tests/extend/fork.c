/* A forked child has a copy of its parent's memory, and neither sees the other's later writes. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int goes_over(uint64_t *memory, size_t length, uint64_t was, uint64_t is)
{
	for (size_t at = 0; at < length; at++) {
		if (memory[at] != at + was)
			return 0;
		memory[at] = at + is;
	}
	return 1;
}

int main(int count, char **words)
{
	size_t length = strtoul(words[1], 0, 10) << 17;
	uint64_t *memory = malloc(length * 8);
	int status = 1;
	for (size_t at = 0; at < length; at++)
		memory[at] = at + 1;
	pid_t child = fork();
	if (!child)
		_exit(!(goes_over(memory, length, 1, 2) && goes_over(memory, length, 2, 3)));
	int is_right = goes_over(memory, length, 1, 4) && goes_over(memory, length, 4, 5);
	waitpid(child, &status, 0);
	puts(is_right && !status ? "each has its own" : "wrong");
	return !is_right || status;
}
