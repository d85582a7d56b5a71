/* SPDX-License-Identifier: MIT */
/*
 * What an event costs. This program starts itself again under a stand-in of the daemon, and there
 * measures loops in turn: a read of the clock alone, which is the measure of all else, an event
 * that is recorded, an event that nobody records.
 */
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <varve/varve.h>
#include "lib/test/fake-daemon.h"

VARVE_EVENT(bench, one, VARVE_INFO, (u32, n));
VARVE_EVENT(bench, three, VARVE_INFO, (u64, a), (i32, b), (x16, c));
VARVE_EVENT(bench, text, VARVE_INFO, (u32, n), (str, text));
VARVE_EVENT(bench, off, VARVE_DEBUG, (u32, n));

extern char **environ;

#define ROUNDS_MAX 1001

/* Of this thread: what others take of a busy machine does not count. */
static int64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void loop_clock(uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
#if defined(__x86_64__)
		uint64_t t = __builtin_ia32_rdtsc();

		__asm__ volatile("" : : "r"(t));
#else
		struct timespec t;

		clock_gettime(CLOCK_MONOTONIC, &t);
#endif
	}
}

static void loop_one(uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		varve_bench_one(i);
}

static void loop_three(uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		varve_bench_three(i, -5, 7);
}

static void loop_text(uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		varve_bench_text(i, "sixteen letters.");
}

static void loop_off(uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		varve_bench_off(i);
}

static const struct {
	const char *name;
	void (*loop)(uint32_t n);
} rows[] = { { "clock alone (rdtsc)", loop_clock }, { "event with an int", loop_one },
	{ "event with three numbers", loop_three },
	{ "event with an int and 16 letters", loop_text }, { "event that is off", loop_off } };
#define N_ROWS (sizeof(rows) / sizeof(rows[0]))

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void measure(uint32_t n, int rounds)
{
	static double ns[N_ROWS][ROUNDS_MAX];

	for (int round = -3; round < rounds; round++) {
		for (size_t i = 0; i < N_ROWS; i++) {
			int64_t begun = cpu_ns();

			rows[i].loop(n);
			if (round >= 0)
				ns[i][round] = (double)(cpu_ns() - begun) / n;
		}
	}
	printf("%d rounds of %u, CPU time in ns     quartile   median quartile\n", rounds, n);
	for (size_t i = 0; i < N_ROWS; i++) {
		qsort(ns[i], (size_t)rounds, sizeof(double), by_value);
		printf("%-34s %8.2f %8.2f %8.2f\n", rows[i].name, ns[i][rounds / 4],
			ns[i][rounds / 2], ns[i][rounds - 1 - rounds / 4]);
	}
	printf("event with an int: %.2f times the clock (goal: at most 2); off: %.2f ns (goal: at most 1)\n",
		ns[1][rounds / 2] / ns[0][rounds / 2], ns[N_ROWS - 1][rounds / 2]);
}

static int run_child(char **argv)
{
	struct fake *f = fake_new(false);
	struct fake_pool *p;
	int status;
	pid_t pid;

	setenv("VARVE_RUNDIR", f->dir, 1);
	setenv("BENCH_EVENT_CHILD", "1", 1);
	if (posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ) != 0)
		return 1;
	while (!(p = fake_pool_of(f, pid)) && waitpid(pid, &status, WNOHANG) == 0)
		usleep(100);
	fake_enable(f, "bench:off", 0);
	if (!p || waitpid(pid, &status, 0) != pid || status != 0) {
		fprintf(stderr, "bench-event: the measured process failed\n");
		return 1;
	}
	if (fake_count(f, p, 0) == 0) {
		fprintf(stderr, "bench-event: nothing was recorded\n");
		return 1;
	}
	fake_free(f);
	return 0;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 501;
	int n = argc > 2 ? atoi(argv[2]) : 20000;

	if (argc > 1 && strcmp(argv[1], "--help") == 0) {
		printf("usage: bench-event [ROUNDS [N]]\n\n"
		       "Prints what an event costs: medians and quartiles of ROUNDS (501) rounds of N\n"
		       "(20000) calls each, the kinds of call in turn, one thread, memory warm.\n");
		return 0;
	}
	if (rounds < 1 || rounds > ROUNDS_MAX || n < 1) {
		fprintf(stderr, "bench-event: ROUNDS must be 1 to %d, N at least 1\n", ROUNDS_MAX);
		return 2;
	}
	if (!getenv("BENCH_EVENT_CHILD"))
		return run_child(argv);
	while (varve_enabled(bench, off))
		usleep(100);
	measure((uint32_t)n, rounds);
	return 0;
}
