/* SPDX-License-Identifier: MIT */
/*
 * forker N: makes N children by fork, while two threads of the parent emit test:parent. A third of
 * the children exit at once; a third emit ten test:child (n) and _exit(); a third emit ten, then
 * exit() as usual. Prints "PID KIND" for each and exits 0 when all have ended well.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <varve/varve.h>

VARVE_EVENT(test, parent, VARVE_INFO, (u64, seq), (u32, tid));
VARVE_EVENT(test, child, VARVE_INFO, (u32, n));

static atomic_bool stop;

static void *talk(void *arg)
{
	uint64_t seq = 0;

	(void)arg;
	while (!atomic_load(&stop)) {
		varve_test_parent(seq++, (uint32_t)gettid());
		usleep(1000);
	}
	return NULL;
}

static void child(int kind)
{
	if (kind == 0)
		_exit(0);
	for (uint32_t n = 0; n < 10; n++)
		varve_test_child(n);
	if (kind == 1)
		_exit(0);
	exit(0);
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 30, failed = 0;
	pthread_t threads[2];

	setvbuf(stdout, NULL, _IONBF, 0); /* children must not print what the parent buffered */
	for (int i = 0; i < 2; i++)
		if (pthread_create(&threads[i], NULL, talk, NULL) != 0)
			return 2;
	for (int i = 0; i < n; i++) {
		pid_t pid = fork();
		int status;

		if (pid < 0)
			return 2;
		if (pid == 0)
			child(i % 3);
		printf("%d %d\n", (int)pid, i % 3);
		if (waitpid(pid, &status, 0) != pid || status != 0)
			failed = 1;
	}
	atomic_store(&stop, true);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	return failed;
}
