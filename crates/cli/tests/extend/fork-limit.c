/* Forks with ever higher limits on open files. A child either has its parent's data, or is killed
   when it touches them; it never sees other data. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static int is_right(const uint64_t *memory, size_t length)
{
	for (size_t at = 0; at < length; at += 512)
		if (memory[at] != at + 1)
			return 0;
	return 1;
}

int main(int count, char **words)
{
	size_t length = strtoul(words[1], 0, 10) << 17;
	uint64_t *memory = malloc(length * 8);
	struct rlimit limit, lower;
	for (size_t at = 0; at < length; at++)
		memory[at] = at + 1;
	getrlimit(RLIMIT_NOFILE, &limit);
	for (rlim_t files = 3; files <= 32; files++) {
		lower = limit;
		lower.rlim_cur = files;
		setrlimit(RLIMIT_NOFILE, &lower);
		pid_t child = fork();
		if (!child)
			_exit(!is_right(memory, length));
		setrlimit(RLIMIT_NOFILE, &limit);
		int status = 0;
		waitpid(child, &status, 0);
		if (WIFSIGNALED(status))
			printf("%lu files: killed by signal %d\n", (unsigned long)files, WTERMSIG(status));
		else
			printf("%lu files: %s\n", (unsigned long)files, status ? "wrong" : "right");
	}
	return !is_right(memory, length);
}
