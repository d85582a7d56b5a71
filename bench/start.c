/* SPDX-License-Identifier: MIT */
/*
 * What being instrumented costs a start: an instrumented and a plain program are started in turn,
 * and the differences of the pairs are taken.
 */
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "lib/test/fake-daemon.h"

extern char **environ;

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int64_t time_start(const char *path)
{
	char *argv[] = { (char *)path, NULL };
	int64_t begun = now_ns();
	int status;
	pid_t pid;

	if (posix_spawn(&pid, path, NULL, NULL, argv, environ) != 0 ||
		waitpid(pid, &status, 0) != pid || status != 0) {
		fprintf(stderr, "bench-start: %s did not run\n", path);
		exit(1);
	}
	return now_ns() - begun;
}

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

/* Sorts, and prints quartiles in microseconds. */
static void print_row(const char *name, int64_t *ns, int n)
{
	int quarter = n / 4, half = n / 2;

	qsort(ns, (size_t)n, sizeof(*ns), by_value);
	printf("%-34s %8.1f %8.1f %8.1f\n", name, (double)ns[quarter] / 1e3, (double)ns[half] / 1e3,
		(double)ns[n - 1 - quarter] / 1e3);
}

int main(int argc, char **argv)
{
	bool own = getenv("VARVE_RUNDIR") == NULL;
	int64_t *plain, *traced, *extra;
	struct fake *f = NULL;
	int pairs, half;

	if (argc < 3 || strcmp(argv[1], "--help") == 0) {
		printf("usage: bench-start PLAIN TRACED [PAIRS]\n\n"
		       "Starts the programs PLAIN and TRACED in turn, PAIRS (500) times, and prints how\n"
		       "long they take from the start to the end. With VARVE_RUNDIR set, the daemon\n"
		       "there serves them, else a stand-in that answers at once.\n");
		return argc == 2 ? 0 : 2;
	}
	pairs = argc > 3 ? atoi(argv[3]) : 500;
	if (pairs < 1) {
		fprintf(stderr, "bench-start: PAIRS must be at least 1\n");
		return 2;
	}
	plain = calloc((size_t)pairs * 3, sizeof(*plain));
	if (!plain)
		return 1;
	traced = plain + pairs;
	extra = traced + pairs;
	if (own) {
		f = fake_new(false);
		setenv("VARVE_RUNDIR", f->dir, 1);
	}
	for (int i = -5; i < pairs; i++) {
		int64_t a = time_start(argv[1]), b = time_start(argv[2]);

		if (i < 0)
			continue; /* warm the caches */
		plain[i] = a;
		traced[i] = b;
		extra[i] = b - a;
	}
	printf("%d pairs, us                       quartile   median quartile\n", pairs);
	print_row("plain", plain, pairs);
	print_row("instrumented, one event", traced, pairs);
	print_row("difference of each pair", extra, pairs);
	half = pairs / 2;
	printf("extra: %.3f ms (goal: at most 1)\n", (double)extra[half] / 1e6);
	if (f)
		fake_free(f);
	free(plain);
	return 0;
}
