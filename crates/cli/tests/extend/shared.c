/* `shared MIB FILE` shares memory with a child, and checks that each sees the other's writes;
 * `shared MIB FILE orphan` exits; its child waits for FILE, checks the memory, and writes the result
 * to FILE;
 * `shared MIB FILE stay` sweeps over the memory until a signal ends it. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static size_t length;

static int goes_over(uint64_t *memory, uint64_t was, uint64_t is)
{
	for (size_t at = 0; at < length; at++) {
		if (memory[at] != at * was)
			return 0;
		memory[at] = at * is;
	}
	return 1;
}

static int orphan(uint64_t *memory, const char *path)
{
	close(0);
	close(1);
	close(2);
	int file;
	while ((file = open(path, O_WRONLY)) < 0)
		usleep(10000);
	const char *said = goes_over(memory, 1, 2) && goes_over(memory, 2, 3) ? "as it was left" : "wrong";
	return write(file, said, strlen(said)) < 0;
}

int main(int count, char **words)
{
	size_t bytes = strtoul(words[1], 0, 10) << 20;
	uint64_t *memory = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return 2;
	length = bytes / 8;
	for (size_t at = 0; at < length; at++)
		memory[at] = at;
	if (count > 3) {
		puts("there");
		fflush(stdout);
		if (!strcmp(words[3], "stay"))
			while (goes_over(memory, 1, 1))
				;
		return fork() ? 0 : orphan(memory, words[2]);
	}
	pid_t child = fork();
	if (!child)
		_exit(!goes_over(memory, 1, 2));
	int status = 1;
	waitpid(child, &status, 0);
	puts(!status && goes_over(memory, 2, 3) ? "each sees it" : "wrong");
	return status;
}
