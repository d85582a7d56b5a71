/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "daemon/rundir.h"

struct place {
	char dir[64], run[80];
};

static int place_make(void **state)
{
	struct place *p = calloc(1, sizeof(*p));

	strcpy(p->dir, "/tmp/varve-test-XXXXXX");
	assert_non_null(mkdtemp(p->dir));
	snprintf(p->run, sizeof(p->run), "%s/run", p->dir);
	*state = p;
	return 0;
}

static const char *file(const struct place *p, const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", p->run, name);
	return path;
}

static int place_remove(void **state)
{
	struct place *p = *state;

	unlink(file(p, "control"));
	unlink(file(p, "lock"));
	rmdir(p->run);
	assert_int_equal(rmdir(p->dir), 0); /* nothing else is left behind */
	free(p);
	return 0;
}

static void take(struct rundir *r, const struct place *p)
{
	char *error;

	if (rundir_init(r, p->run, TRACE_CLOCK_MONOTONIC, &error) < 0)
		fail_msg("%s", error);
}

static void everybody_may_connect_and_read(void **state)
{
	struct rundir r;
	struct stat st;

	umask(077);
	take(&r, *state);
	umask(022);
	assert_int_equal(stat(((struct place *)*state)->run, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0755);
	assert_int_equal(stat(file(*state, "app.sock"), &st), 0);
	assert_int_equal(st.st_mode & 0777, 0666);
	assert_int_equal(stat(file(*state, "ctl.sock"), &st), 0);
	assert_int_equal(st.st_mode & 0777, 0666);
	assert_int_equal(stat(file(*state, "control"), &st), 0);
	assert_int_equal(st.st_mode & 0777, 0644);
	assert_int_equal(st.st_size, CONTROL_SIZE);
	assert_true(st.st_blocks * 512 <= 4 * POOL_PAGE);
	rundir_fini(&r);
}

static void one_daemon_per_directory(void **state)
{
	struct rundir r, second;
	char *error = NULL, pid[32];

	take(&r, *state);
	assert_int_equal(
		rundir_init(&second, ((struct place *)*state)->run, TRACE_CLOCK_MONOTONIC, &error),
		-EBUSY);
	snprintf(pid, sizeof(pid), "(pid %d)", (int)getpid());
	assert_non_null(strstr(error, "varved already runs in "));
	assert_non_null(strstr(error, pid));
	free(error);
	/* The one that runs lost nothing by it. */
	assert_int_equal(access(file(*state, "app.sock"), F_OK), 0);
	rundir_fini(&r);
	assert_int_equal(access(file(*state, "app.sock"), F_OK), -1);
}

static void next_daemon_takes_the_control_file_over(void **state)
{
	struct rundir r;
	struct stat before, after;
	uint64_t epoch;

	take(&r, *state);
	assert_int_equal(stat(file(*state, "control"), &before), 0);
	assert_int_equal(atomic_load(&r.control->next), 1);
	assert_int_equal(r.words[0], 0);
	rundir_listening(&r);
	assert_int_equal(r.words[0], WORD_ATTACH);
	epoch = atomic_load(&r.control->epoch);
	assert_int_not_equal(epoch, 0);
	atomic_store(&r.control->next, 4);
	atomic_store(&r.words[1], 5);
	atomic_store(&r.words[3], 1);
	rundir_fini(&r);

	take(&r, *state);
	assert_int_equal(stat(file(*state, "control"), &after), 0);
	assert_int_equal(before.st_ino, after.st_ino);
	assert_true(atomic_load(&r.control->epoch) != epoch);
	assert_int_equal(atomic_load(&r.control->next), 4);
	assert_int_equal(r.words[0], 0);
	for (int i = 1; i < 4; i++)
		assert_int_equal(r.words[i], WORD_ATTACH);
	assert_int_equal(r.words[4], 0);
	rundir_fini(&r);
}

static void foreign_control_file_is_refused(void **state)
{
	struct rundir r;
	char *error = NULL;
	FILE *f;

	mkdir(((struct place *)*state)->run, 0755);
	f = fopen(file(*state, "control"), "we");
	fputs("something else", f);
	fclose(f);
	assert_int_equal(
		rundir_init(&r, ((struct place *)*state)->run, TRACE_CLOCK_MONOTONIC, &error),
		-EPROTO);
	assert_non_null(strstr(error, "control"));
	assert_non_null(strstr(error, "remove it"));
	free(error);
}

static void long_path_is_refused_in_one_line(void **state)
{
	struct rundir r;
	char *error = NULL, path[256];
	struct place *p = *state;

	snprintf(path, sizeof(path), "%s/%0100d", p->dir, 0);
	assert_int_equal(rundir_init(&r, path, TRACE_CLOCK_MONOTONIC, &error), -ENAMETOOLONG);
	assert_non_null(strstr(error, "too long"));
	free(error);
	snprintf(path, sizeof(path), "rm -r %s/%0100d", p->dir, 0);
	assert_int_equal(system(path), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, place_make, place_remove)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(everybody_may_connect_and_read),
		TEST(one_daemon_per_directory),
		TEST(next_daemon_takes_the_control_file_over),
		TEST(foreign_control_file_is_refused),
		TEST(long_path_is_refused_in_one_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
