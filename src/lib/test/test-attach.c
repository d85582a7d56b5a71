/* SPDX-License-Identifier: MIT */
/* Daemons that come late, go, misbehave or are not to be trusted. */

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "lib/test/subjects.h"

static void test_hello(void **state)
{
	struct fake *f = fake_new(false);
	struct rlimit old, tight = { 1 << 30, 1 << 30 };
	struct fake_pool *p;
	pid_t pid;

	subject_run(f, LINKED, "ticks", "1", &pid);
	p = fake_pool_of(f, pid);
	if (!emulated()) {
		assert_string_equal(p->hello.name, "subject");
		assert_string_equal(p->exe, path_of("subject"));
	}
	assert_int_equal(p->hello.ppid, getpid());
	assert_true(p->hello.room == UINT64_MAX);
	/* What is in no unit's code is not described. */
	for (uint32_t i = 1; i < f->n_layouts; i++)
		assert_string_not_equal(f->layouts[i]->name, "unused");
	if (SANITIZED || emulated()) { /* need terabytes of addresses */
		fake_free(f);
		return;
	}
	assert_int_equal(getrlimit(RLIMIT_AS, &old), 0);
	tight.rlim_max = old.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_AS, &tight), 0);
	subject_run(f, LINKED, "ticks", "1", &pid);
	assert_int_equal(setrlimit(RLIMIT_AS, &old), 0);
	p = fake_pool_of(f, pid);
	assert_in_range(p->hello.room, 1 << 28, 1 << 29);
	fake_free(f);
}

static int64_t time_run(struct fake *f, const char *name, const char *arg)
{
	int64_t begun = now_us();

	subject_run(f, LINKED, name, arg, NULL);
	return now_us() - begun;
}

static int by_value(const void *a, const void *b)
{
	return *(const int64_t *)a < *(const int64_t *)b ? -1 : 1;
}

static int64_t median_run(struct fake *f)
{
	int64_t t[9];

	for (int i = 0; i < 9; i++)
		t[i] = time_run(f, "ticks", "10");
	qsort(t, 9, sizeof(t[0]), by_value);
	return t[4];
}

/* Steps until something is recorded in a pool other than old, which it returns: a pool stays empty
 * whose asker had given up by the time it was made. *n counts the events. */
static struct fake_pool *step_until_recorded(
	struct fake *f, struct subject *s, const struct fake_pool *old, uint32_t *n)
{
	for (int i = 0; i < 100; i++) {
		struct fake_pool *p;

		subject_go_on(s);
		subject_hear(s);
		++*n;
		p = fake_pool_of(f, s->pid);
		if (p && p != old && fake_count(f, p, 0) > 0)
			return p;
		usleep(30000);
	}
	fail_msg("nothing is recorded");
	return NULL;
}

/* However the daemon is, a start takes at most 50 ms longer, and no event call takes long. */
static void test_patience(void **state)
{
	static const struct {
		enum fake_manner manner;
		const char *name;
		int64_t start_ms;
	} bad[] = { { FAKE_SERVE, "serving", 75 }, { FAKE_DEAF, "deaf", 75 },
		{ FAKE_MUTE, "mute", 75 }, { FAKE_HALF, "half", 75 },
		{ FAKE_GARBAGE, "garbage", 75 }, { FAKE_UNSEALED, "unsealed", 75 },
		{ FAKE_REFUSE, "refusing", 75 } };
	struct fake *f;
	int64_t plain;

	if (emulated())
		skip();
	f = fake_new(true);
	unsetenv("VARVE_ATTACH_MS");
	plain = median_run(f);
	print_message("absent: %d us\n", (int)plain);
	fake_free(f);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct subject s;
		int64_t median;

		f = fake_new(false);
		f->manner = bad[i].manner;
		median = median_run(f);
		s = subject_start(f, LINKED, "slowest", "300");
		print_message("%s: start +%d us, slowest call %s us\n", bad[i].name,
			(int)(median - plain), subject_hear(&s));
		assert_int_equal(subject_end(&s), 0);
		assert_in_range(median - plain + 1000000, 0, 1000000 + bad[i].start_ms * 1000);
		if (bad[i].manner != FAKE_SERVE && bad[i].manner != FAKE_UNSEALED &&
			bad[i].manner != FAKE_HALF)
			assert_int_equal(f->n_pools, 0);
		fake_free(f);
	}
	setenv("VARVE_ATTACH_MS", "5000", 1);
}

/* Events before the daemon recovers are counted, those after it recorded. */
static void test_recovery(void **state)
{
	struct fake *f = fake_new(false);
	struct fake_pool *p;
	struct subject s;
	uint32_t i;

	f->manner = FAKE_MUTE;
	setenv("VARVE_ATTACH_MS", "20", 1);
	s = subject_start(f, LINKED, "steps", "100");
	setenv("VARVE_ATTACH_MS", "5000", 1);
	for (i = 0; i < 3; i++) {
		subject_go_on(&s);
		subject_hear(&s);
	}
	f->manner = FAKE_SERVE;
	p = step_until_recorded(f, &s, NULL, &i);
	assert_int_equal(fake_count(f, p, 0) + fake_lost(p, 0, LOST_UNATTACHED), i);
	assert_in_range(fake_count(f, p, 0), 1, 97);
	assert_int_equal(subject_end(&s), 0);
	fake_free(f);
}

/* The control file is there, nobody listens; then somebody does. */
static void test_later(void **state)
{
	struct fake *f = fake_new(false);
	struct subject s;
	uint32_t n = 1;

	atomic_store(&f->words[0], 0);
	s = subject_start(f, LINKED, "steps", "200");
	subject_go_on(&s);
	subject_hear(&s);
	assert_int_equal(f->n_conversations, 0);
	atomic_store(&f->words[0], WORD_ATTACH);
	step_until_recorded(f, &s, NULL, &n);
	assert_int_equal(subject_end(&s), 0);
	fake_free(f);
}

/* A new daemon from nothing: a new pool, and the memory of the old one is given back. */
static void test_renewal(void **state)
{
	struct fake *f = fake_new(false);
	struct fake_pool *p, *old = NULL;
	struct subject s = subject_start(f, LINKED, "steps", "2000");
	uint32_t n = 0;

	for (int round = 0; round < 12; round++) {
		uint32_t before = n;

		if (round)
			fake_renew(f);
		p = step_until_recorded(f, &s, old, &n);
		subject_go_on(&s);
		subject_hear(&s);
		n++;
		assert_int_equal(
			fake_count(f, p, 0) + fake_lost(p, 0, LOST_UNATTACHED), n - before);
		assert_true(fake_count(f, p, 0) >= 2);
		if (old && !emulated())
			assert_int_equal(ring_pool_bytes(&old->ring), 0);
		old = p;
	}
	assert_int_equal(subject_end(&s), 0);
	fake_free(f);
}

static void test_wait(void **state)
{
	struct fake *f = fake_new(true);
	struct subject s;
	uint32_t n = 1;

	setenv("VARVE_WAIT", "1", 1);
	s = subject_start(f, LINKED, "steps", "200");
	unsetenv("VARVE_WAIT");
	subject_go_on(&s);
	subject_hear(&s);
	fake_listen(f);
	step_until_recorded(f, &s, NULL, &n);
	assert_int_equal(subject_end(&s), 0);
	fake_free(f);
}

/* A socket of somebody else's, beside a control file of root's. */
static void test_trust_peer(void **state)
{
	const int stranger = 12345;
	struct fake *f;
	char path[128];
	pid_t pid;

	if (geteuid() != 0)
		skip();
	f = fake_new(true);
	snprintf(path, sizeof(path), "%s/control", f->dir);
	assert_int_equal(chmod(f->dir, 0777), 0);
	/* Of this thread alone, so not by the function of that name. */
	assert_int_equal(syscall(SYS_setresuid, -1, stranger, -1), 0);
	fake_listen(f);
	assert_int_equal(syscall(SYS_setresuid, -1, 0, -1), 0);
	assert_int_equal(chown(path, 0, 0), 0);
	subject_run(f, LINKED, "ticks", "1", &pid);
	assert_int_equal(f->n_conversations, 0);
	assert_int_equal(chown(f->dir, (uid_t)stranger, 0), 0);
	subject_run(f, LINKED, "ticks", "1", &pid);
	assert_int_equal(f->n_conversations, 1);
	fake_free(f);
}

/* A control file of somebody else is not obeyed. */
static void test_trust(void **state)
{
	struct fake *f;
	char path[128];
	pid_t pid;

	if (geteuid() != 0)
		skip();
	f = fake_new(false);
	snprintf(path, sizeof(path), "%s/control", f->dir);
	assert_int_equal(chown(path, 12345, 12345), 0);
	subject_run(f, LINKED, "ticks", "1", &pid);
	assert_int_equal(f->n_conversations, 0);
	/* Of the directory's owner it is. */
	assert_int_equal(chown(f->dir, 12345, 12345), 0);
	subject_run(f, LINKED, "ticks", "1", &pid);
	assert_int_equal(f->n_conversations, 1);
	fake_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hello),
		cmocka_unit_test(test_patience),
		cmocka_unit_test(test_recovery),
		cmocka_unit_test(test_later),
		cmocka_unit_test(test_renewal),
		cmocka_unit_test(test_wait),
		cmocka_unit_test(test_trust_peer),
		cmocka_unit_test(test_trust),
	};

	return subjects_test(tests);
}
