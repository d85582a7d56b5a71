/* SPDX-License-Identifier: MIT */
/* Life inside a program that forks, handles signals, loads libraries, and notices nothing. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "lib/test/subjects.h"

static void test_fork(void **state)
{
	static const char *const rounds = "30";

	if (emulated())
		skip();
	for (int host = 0; host < N_HOSTS; host++) {
		if (host_missing(host))
			continue;
		struct fake *f = fake_new(false);
		struct subject s = subject_start(f, host, "fork", rounds);
		uint32_t n_children = 0, expected;
		char *line;
		pid_t pid;

		while (*(line = subject_hear(&s))) {
			struct fake_pool *p;
			char *text, own[32];

			assert_int_equal(sscanf(line, "%d %u", &pid, &expected), 2);
			n_children++;
			p = fake_pool_of(f, pid);
			if (!expected) {
				assert_null(p);
				continue;
			}
			assert_non_null(p);
			text = fake_records(f, p, 0);
			snprintf(own, sizeof(own), "%d subject:child pid=%d ", pid, pid);
			assert_int_equal(count_in(text, own), 100);
			assert_int_equal(count_in(text, "subject:child"), 100);
			free(text);
		}
		assert_int_equal(subject_end(&s), 0);
		assert_int_equal(n_children, 34);
		print_message("%s: %u conversations for %u pools\n", host_names[host],
			f->n_conversations, f->n_pools);
		fake_free(f);
	}
}

static void test_signals(void **state)
{
	for (int host = 0; host < N_HOSTS; host++) {
		if (host_missing(host))
			continue;
		struct fake *f = fake_new(false);
		struct subject s = subject_start(f, host, "signals", NULL);
		uint32_t n, handled[3];
		uint64_t lost = 0;
		struct fake_pool *p;
		char *line = subject_hear(&s);

		assert_int_equal(
			sscanf(line, "%u %u %u %u", &n, &handled[0], &handled[1], &handled[2]), 4);
		assert_int_equal(subject_end(&s), 0);
		print_message("%s: %u events, handlers %u %u %u\n", host_names[host], n, handled[0],
			handled[1], handled[2]);
		assert_true(handled[0] > 100 && handled[2] == handled[0]);
		p = fake_pool_of(f, s.pid);
		for (int why = 0; why < N_LOST_REASONS; why++)
			lost += fake_lost(p, 0, why);
		/* All kept ones verify; the flight ring keeps what fits. */
		assert_true(fake_count(f, p, 0) > 1000);
		assert_int_equal(lost, fake_lost(p, 0, LOST_NOBUF));
		fake_free(f);
	}
}

static void test_altstack(void **state)
{
	struct fake *f;
	struct subject s;

	if (SANITIZED || emulated())
		skip(); /* their run time needs more than we may use */
	f = fake_new(false);
	atomic_store(&f->words[0], 0);
	s = subject_start(f, LINKED, "altstack", NULL);
	assert_string_equal(subject_hear(&s), "ready");
	atomic_store(&f->words[0], WORD_ATTACH);
	subject_go_on(&s);
	assert_int_equal(subject_end(&s), 0);
	assert_int_equal(f->n_conversations, 1);
	fake_free(f);
}

static void test_load(void **state)
{
	struct fake *f = fake_new(false);
	struct fake_pool *p;
	struct subject s = subject_start(f, LINKED, "load", path_of("subject-plugin.so"));
	char *text;

	assert_string_equal(subject_hear(&s), "");
	assert_int_equal(subject_end(&s), 0);
	p = fake_pool_of(f, s.pid);
	text = fake_records(f, p, 0);
	assert_int_equal(count_in(text, "where=\"call\""), 50);
	assert_int_equal(count_in(text, "where=\"constructor\""), 50);
	assert_int_equal(count_in(text, "where=\"destructor\""), 50);
	assert_int_equal(f->n_conversations, 51);
	free(text);
	fake_free(f);
}

/* Threads that emit, load, unload and fork, while the daemon is replaced again and again. */
static void test_storm(void **state)
{
	for (int i = 0; i < 2; i++) {
		struct fake *f = fake_new(false);
		struct subject s = subject_start(
			f, LINKED, i ? "quick-storm" : "storm", getenv("SUBJECT_DIR"));
		int64_t until = now_us() + 1200000;
		struct fake_pool *p;

		while (now_us() < until) {
			usleep(40000);
			fake_renew(f);
		}
		assert_string_equal(subject_hear(&s), "");
		assert_int_equal(subject_end(&s), 0);
		p = fake_pool_of(f, s.pid);
		assert_non_null(p);
		print_message("%u pools in %u conversations, %u records in the last\n", f->n_pools,
			f->n_conversations, (unsigned)fake_count(f, p, 0));
		fake_free(f);
	}
}

/* Two copies of libvarve in one process: each has its own pool. */
static void test_mixed(void **state)
{
	struct fake *f = fake_new(false);
	struct subject s = subject_start(f, MIXED, "load", path_of("subject-plugin.so"));
	char *text;

	assert_string_equal(subject_hear(&s), "");
	assert_int_equal(subject_end(&s), 0);
	assert_int_equal(f->n_pools, 2);
	assert_int_equal(f->pools[0]->hello.pid, s.pid);
	assert_int_equal(f->pools[1]->hello.pid, s.pid);
	assert_int_equal(fake_count(f, f->pools[0], 0), 0);
	text = fake_records(f, f->pools[1], 0);
	assert_int_equal(count_in(text, "where=\"call\""), 50);
	free(text);
	fake_free(f);
}

static void test_leftovers(void **state)
{
	for (int host = 0; host < N_HOSTS; host++) {
		if (host_missing(host))
			continue;
		struct fake *f = fake_new(false);
		struct subject s = subject_start(f, host, "leftovers", NULL);

		/* An emulator has a thread of its own. */
		assert_string_equal(subject_hear(&s), emulated() ? "0 2" : "0 1");
		assert_int_equal(subject_end(&s), 0);
		fake_free(f);
	}
}

static void test_seccomp(void **state)
{
	struct fake *f;
	struct subject s;

	if (SANITIZED || emulated())
		skip(); /* their run time needs more than we may use */
	f = fake_new(false);
	atomic_store(&f->words[0], 0);
	s = subject_start(f, LINKED, "seccomp", NULL);
	assert_string_equal(subject_hear(&s), "ready");
	atomic_store(&f->words[0], WORD_ATTACH);
	subject_go_on(&s);
	assert_string_equal(subject_hear(&s), "done");
	assert_int_equal(subject_end(&s), 0);
	assert_int_equal(f->n_conversations, 0);
	fake_free(f);
}

/* A million events: no system call, but for a wake of the sleeping daemon once a second. */
static void test_syscalls(void **state)
{
	struct fake *f;
	char trace[128], line[512];
	char *argv[] = { (char *)"strace", (char *)"-o", trace, (char *)path_of("subject"),
		(char *)"syscalls", (char *)"1000000", NULL };
	int64_t begun = now_us();
	uint32_t n_futex = 0, n_other = 0;
	struct subject s;
	bool between = false;
	FILE *in;

	if (SANITIZED || emulated() || system("strace -V > /dev/null 2>&1") != 0)
		skip();
	f = fake_new(false);
	f->control->asleep = 1;
	snprintf(trace, sizeof(trace), "%s/strace", f->dir);
	setenv("VARVE_RUNDIR", f->dir, 1);
	s = subject_spawn(argv);
	assert_string_equal(subject_hear(&s), "begin");
	assert_string_equal(subject_hear(&s), "end");
	assert_int_equal(subject_end(&s), 0);
	in = fopen(trace, "r");
	assert_non_null(in);
	while (fgets(line, sizeof(line), in)) {
		if (strstr(line, "\"begin"))
			between = true;
		else if (strstr(line, "\"end"))
			between = false;
		else if (between && strncmp(line, "futex(", 6) == 0)
			n_futex++;
		else if (between)
			n_other++;
	}
	fclose(in);
	assert_int_equal(n_other, 0);
	assert_in_range(n_futex, 0, (now_us() - begun) / 1000000 + 1);
	assert_int_equal(f->n_pools, 1);
	assert_true(fake_count(f, f->pools[0], 0) > 1000);
	fake_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fork),
		cmocka_unit_test(test_signals),
		cmocka_unit_test(test_altstack),
		cmocka_unit_test(test_load),
		cmocka_unit_test(test_storm),
		cmocka_unit_test(test_mixed),
		cmocka_unit_test(test_leftovers),
		cmocka_unit_test(test_seccomp),
		cmocka_unit_test(test_syscalls),
	};

	return subjects_test(tests);
}
