/* SPDX-License-Identifier: MIT */
/* The directory of a snapshot: whole or not at all, whatever stands in its place and whatever comes. */

#include "cli/output.h"

#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include "cli/cli.h"
#include "cli/tree.h"
#include "wire/frames.h"

static char home[] = "/tmp/varve-test-output-XXXXXX";

static int setup(void **state)
{
	strcpy(home + sizeof(home) - 7, "XXXXXX");
	alarm(20);
	assert_non_null(mkdtemp(home));
	assert_int_equal(chdir(home), 0);
	return 0;
}

static int teardown(void **state)
{
	assert_int_equal(chdir("/"), 0);
	return tree_remove(AT_FDCWD, home);
}

static void make_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

/* How many entries the directory has. */
static int count(const char *path)
{
	char command[PATH_MAX + 32];
	FILE *f;
	int n;

	snprintf(command, sizeof(command), "ls -A '%s' | wc -l", path);
	f = popen(command, "r");
	assert_int_equal(fscanf(f, "%d", &n), 1);
	pclose(f);
	return n;
}

/* --- a daemon that says what it is told to -------------------------------------------------------- */

struct talk {
	struct client client;
	int fd;
};

static struct talk talk_new(void)
{
	struct talk t = { 0 };
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	t.client = (struct client){ .fd = pair[0], .dir = strdup("test") };
	t.fd = pair[1];
	return t;
}

static void frame(
	struct talk *t, enum frame_type type, uint32_t file, uint64_t offset, const char *body)
{
	struct frame_head head = frame_head_make(type, file, offset, (uint32_t)strlen(body));

	assert_int_equal(write(t->fd, &head, sizeof(head)), sizeof(head));
	assert_int_equal(write(t->fd, body, strlen(body)), strlen(body));
}

static void whole_snapshot(struct talk *t)
{
	frame(t, FRAME_PLAN, 2, 10, "");
	frame(t, FRAME_FILE, 0, 10, "ctf/stream_0");
	frame(t, FRAME_FILE, 1, FRAME_SIZE_UNKNOWN, "report.json");
	frame(t, FRAME_DATA, 0, 5, "world");
	frame(t, FRAME_DATA, 1, 0, "{}");
	frame(t, FRAME_DATA, 0, 0, "hello");
	frame(t, FRAME_END, 0, 0, "{\"events\":2}");
}

/* Receives what was said, into path. */
static int receive(struct talk *t, const char *path, const char *session)
{
	json_t *totals = NULL;
	struct output o;
	int r;

	shutdown(t->fd, SHUT_WR);
	r = output_open(&o, path);
	if (r == 0)
		r = output_receive(&o, &t->client, &totals);
	if (r == 0) {
		assert_int_equal(json_integer_value(json_object_get(totals, "events")), 2);
		r = output_commit(&o, session, 0);
	}
	json_decref(totals);
	output_close(&o);
	client_close(&t->client);
	close(t->fd);
	return r;
}

static void check_whole(const char *path)
{
	char file[PATH_MAX], text[16] = "";
	struct stat st;
	mode_t mask = umask(0);
	FILE *f;

	umask(mask);
	snprintf(file, sizeof(file), "%s/ctf/stream_0", path);
	f = fopen(file, "r");
	assert_non_null(f);
	assert_int_equal(fread(text, 1, sizeof(text), f), 10);
	assert_string_equal(text, "helloworld");
	fclose(f);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0777 & ~mask);
	assert_int_equal(count(path), 2);
}

/* --- tests -------------------------------------------------------------------------------------- */

static void whole_snapshot_appears(void **state)
{
	struct talk t = talk_new();

	whole_snapshot(&t);
	assert_int_equal(receive(&t, "out", "s"), 0);
	check_whole("out");
	assert_int_equal(count("."), 1);
}

static void empty_directory_is_taken(void **state)
{
	struct talk t = talk_new();

	assert_int_equal(mkdir("out", 0700), 0);
	whole_snapshot(&t);
	assert_int_equal(receive(&t, "out", "s"), 0);
	check_whole("out");
	assert_int_equal(count("."), 1);
}

static void slash_makes_a_name(void **state)
{
	struct talk t = talk_new();
	char time[OUTPUT_TIME_MAX], path[64];

	assert_int_equal(mkdir("shelf", 0700), 0);
	whole_snapshot(&t);
	assert_int_equal(receive(&t, "shelf/", "flight"), 0);
	snprintf(path, sizeof(path), "shelf/flight-%s", output_time(time, 0));
	check_whole(path);
	assert_int_equal(count("shelf"), 1);
}

static void what_is_there_stays(void **state)
{
	static const char *const refused[] = { "full", "file", "link", "dangling", "nowhere/out",
		"nowhere/", "file/out", ".", "..", "full/..", "shelf/." };

	assert_int_equal(mkdir("full", 0700), 0);
	assert_int_equal(mkdir("shelf", 0700), 0);
	make_file("full/mine", "precious");
	make_file("file", "precious");
	assert_int_equal(symlink("shelf", "link"), 0);
	assert_int_equal(symlink("target", "dangling"), 0);
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		struct talk t = talk_new();

		assert_int_equal(output_check(refused[i]), CLI_FAILED);
		whole_snapshot(&t);
		assert_int_equal(receive(&t, refused[i], "s"), CLI_FAILED);
	}
	assert_int_equal(count("."), 5);
	assert_int_equal(count("full"), 1);
	assert_int_equal(count("shelf"), 0);
}

static void checking_makes_nothing(void **state)
{
	assert_int_equal(output_check("out"), 0);
	assert_int_equal(output_check("./"), 0);
	assert_int_equal(count("."), 0);
}

static void broken_snapshots_leave_nothing(void **state)
{
	for (int kind = 0; kind < 6; kind++) {
		struct talk t = talk_new();

		frame(&t, FRAME_PLAN, 1, 10, "");
		frame(&t, FRAME_FILE, 0, 10, "ctf/stream_0");
		frame(&t, FRAME_DATA, 0, 0, "hello");
		if (kind == 1)
			frame(&t, FRAME_ERROR, 0, 0, "the pool is on fire");
		else if (kind == 2)
			frame(&t, FRAME_FILE, 1, 0, "../escaped");
		else if (kind == 3)
			frame(&t, FRAME_FILE, 1, 0, "ctf/stream_0"); /* twice */
		else if (kind == 4)
			frame(&t, FRAME_END, 0, 0, "[]");
		else if (kind == 5)
			frame(&t, FRAME_DATA, 0, 8, "too long");
		assert_int_equal(receive(&t, "out", "s"), CLI_FAILED);
		assert_int_equal(count("."), 0);
	}
	assert_int_not_equal(access("../escaped", F_OK), 0);
}

static void directory_that_comes_meanwhile_stays(void **state)
{
	struct talk t = talk_new();
	json_t *totals;
	struct output o;

	whole_snapshot(&t);
	assert_int_equal(output_open(&o, "out"), 0);
	assert_int_equal(output_receive(&o, &t.client, &totals), 0);
	json_decref(totals);
	assert_int_equal(mkdir("out", 0700), 0);
	make_file("out/mine", "precious");
	assert_int_equal(output_commit(&o, "s", 0), CLI_FAILED);
	output_close(&o);
	client_close(&t.client);
	close(t.fd);
	assert_int_equal(count("."), 1);
	assert_int_equal(count("out"), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(whole_snapshot_appears, setup, teardown),
		cmocka_unit_test_setup_teardown(empty_directory_is_taken, setup, teardown),
		cmocka_unit_test_setup_teardown(slash_makes_a_name, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_there_stays, setup, teardown),
		cmocka_unit_test_setup_teardown(checking_makes_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(broken_snapshots_leave_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(
			directory_that_comes_meanwhile_stays, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
