/* SPDX-License-Identifier: MIT */
/* The control socket against clients of all sorts: lines in pieces, many at once, rubbish, floods,
 * those who do not read, and those who may not. */

#include "daemon/control/ctl.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#define NOBODY 65534

struct fixture {
	uv_loop_t loop;
	int listen_fd;
	struct sockaddr_un addr;
	socklen_t addr_size;
	struct ctl *ctl;
	unsigned n_requests;
	int handed_over; /* fd, or -1 */
};

/* echo: gives "text" back; big: a megabyte; own: takes the connection; else: fails */
static void request(void *ctx, struct ctl_conn *c, json_t *req)
{
	struct fixture *f = ctx;
	const char *verb = json_string_value(json_object_get(req, "verb"));
	static char big[1 << 20];

	f->n_requests++;
	if (verb && strcmp(verb, "echo") == 0) {
		ctl_answer(c, json_pack("{s:O}", "text", json_object_get(req, "text")));
	} else if (verb && strcmp(verb, "big") == 0) {
		memset(big, 'x', sizeof(big) - 1);
		ctl_answer(c, json_pack("{s:s}", "text", big));
	} else if (verb && strcmp(verb, "own") == 0) {
		f->handed_over = ctl_hand_over(c, NULL);
	} else {
		ctl_fail(c, 2, "no such verb: %s\n\x01", verb ? verb : "none");
	}
}

static int setup(void **state)
{
	static struct fixture f;

	alarm(20);
	f = (struct fixture){ .handed_over = -1, .addr = { .sun_family = AF_UNIX } };
	assert_int_equal(uv_loop_init(&f.loop), 0);
	f.listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	/* An abstract name that the kernel chooses. */
	assert_int_equal(bind(f.listen_fd, (struct sockaddr *)&f.addr, sizeof(sa_family_t)), 0);
	f.addr_size = sizeof(f.addr);
	assert_int_equal(getsockname(f.listen_fd, (struct sockaddr *)&f.addr, &f.addr_size), 0);
	assert_int_equal(listen(f.listen_fd, 64), 0);
	assert_int_equal(ctl_new(&f.ctl, &f.loop, f.listen_fd, request, &f), 0);
	*state = &f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	ctl_free(f->ctl);
	uv_run(&f->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&f->loop), 0);
	close(f->listen_fd);
	return 0;
}

static int client(struct fixture *f)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(connect(fd, (struct sockaddr *)&f->addr, f->addr_size), 0);
	return fd;
}

static void say(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* Runs the loop until a line has come, or the end. Returns its length with '\n', 0 for the end. */
static size_t hear(struct fixture *f, int fd, char *line, size_t size)
{
	size_t n = 0;

	for (;;) {
		ssize_t r = recv(fd, line + n, 1, MSG_DONTWAIT);

		if (r == 1) {
			assert_true(n + 1 < size);
			if (line[n++] == '\n')
				break;
		} else if (r == 0 || errno != EAGAIN) {
			break;
		} else {
			uv_run(&f->loop, UV_RUN_NOWAIT);
		}
	}
	line[n] = '\0';
	return n;
}

#define SAY_BACK(text) "{\"verb\":\"echo\",\"text\":\"" text "\"}\n"
#define ANSWER(text)   "{\"text\":\"" text "\",\"ok\":true}\n"

static void lines_come_in_pieces_and_in_heaps(void **state)
{
	struct fixture *f = *state;
	int fd = client(f);
	char line[256];

	say(fd, "{\"verb\":\"echo\",");
	for (int i = 0; i < 5; i++)
		uv_run(&f->loop, UV_RUN_NOWAIT);
	assert_int_equal(f->n_requests, 0);
	say(fd, "\"text\":\"a\"}\n" SAY_BACK("b") SAY_BACK("c"));
	hear(f, fd, line, sizeof(line));
	assert_string_equal(line, ANSWER("a"));
	hear(f, fd, line, sizeof(line));
	assert_string_equal(line, ANSWER("b"));
	hear(f, fd, line, sizeof(line));
	assert_string_equal(line, ANSWER("c"));
	close(fd);
}

static void failure_is_one_harmless_line(void **state)
{
	struct fixture *f = *state;
	int fd = client(f);
	char line[256];

	say(fd, "{\"verb\":\"dance\"}\n" SAY_BACK("after"));
	hear(f, fd, line, sizeof(line));
	assert_string_equal(
		line, "{\"ok\":false,\"error\":\"no such verb: dance??\",\"exit\":2}\n");
	hear(f, fd, line, sizeof(line));
	assert_string_equal(line, ANSWER("after"));
	close(fd);
}

static void rubbish_ends_the_connection(void **state)
{
	static const char *const rubbish[] = { "\n", "hello\n", "[1]\n", "{\"a\":1,\"a\":2}\n",
		"{\"verb\":\"echo\"} x\n", "{\"verb\":\"\\u0000\"}\n", "\xff\xfe\n" };
	struct fixture *f = *state;
	char line[512];

	for (size_t i = 0; i < sizeof(rubbish) / sizeof(rubbish[0]); i++) {
		int fd = client(f);

		say(fd, rubbish[i]);
		assert_true(hear(f, fd, line, sizeof(line)) > 0);
		assert_non_null(strstr(line, "\"ok\":false"));
		assert_int_equal(hear(f, fd, line, sizeof(line)), 0);
		close(fd);
	}
	assert_int_equal(f->n_requests, 0);
}

static void endless_line_is_cut_off(void **state)
{
	static char flood[CTL_LINE_MAX];
	struct fixture *f = *state;
	char line[256];
	int fd = client(f);

	memset(flood, '{', sizeof(flood));
	assert_int_equal(send(fd, flood, sizeof(flood), 0), sizeof(flood));
	hear(f, fd, line, sizeof(line));
	assert_non_null(strstr(line, "longer than 65536 bytes"));
	assert_int_equal(hear(f, fd, line, sizeof(line)), 0);
	close(fd);
}

static void who_does_not_read_is_not_served_on(void **state)
{
	static char line[(1 << 20) + 256];
	struct fixture *f = *state;
	int fd = client(f);

	for (int i = 0; i < 4; i++)
		say(fd, "{\"verb\":\"big\"}\n");
	for (int i = 0; i < 100; i++)
		uv_run(&f->loop, UV_RUN_NOWAIT);
	assert_int_equal(f->n_requests, 1);
	for (int i = 0; i < 4; i++)
		assert_true(hear(f, fd, line, sizeof(line)) > 1 << 20);
	assert_int_equal(f->n_requests, 4);
	/* One that leaves in the middle of an answer. */
	say(fd, "{\"verb\":\"big\"}\n");
	for (int i = 0; i < 10; i++)
		uv_run(&f->loop, UV_RUN_NOWAIT);
	close(fd);
	for (int i = 0; i < 10; i++)
		uv_run(&f->loop, UV_RUN_NOWAIT);
}

static void connection_is_handed_over(void **state)
{
	struct fixture *f = *state;
	int fd = client(f);
	char line[64];

	say(fd, "{\"verb\":\"own\"}\n");
	hear(f, fd, line, sizeof(line));
	assert_string_equal(line, "{\"ok\":true}\n");
	assert_true(f->handed_over >= 0);
	say(f->handed_over, "frames\n");
	hear(f, fd, line, sizeof(line));
	assert_string_equal(line, "frames\n");
	close(f->handed_over);
	assert_int_equal(hear(f, fd, line, sizeof(line)), 0);
	close(fd);
}

static void connections_of_a_uid_are_bounded(void **state)
{
	struct fixture *f = *state;
	int fd[CTL_UID_CONNS + 1];
	char line[256];

	for (unsigned i = 0; i <= CTL_UID_CONNS; i++)
		fd[i] = client(f);
	hear(f, fd[CTL_UID_CONNS], line, sizeof(line));
	assert_non_null(strstr(line, "too many"));
	close(fd[0]);
	close(fd[CTL_UID_CONNS]);
	for (int i = 0; i < 10; i++)
		uv_run(&f->loop, UV_RUN_NOWAIT);
	fd[0] = client(f);
	say(fd[0], SAY_BACK("again"));
	hear(f, fd[0], line, sizeof(line));
	assert_string_equal(line, ANSWER("again"));
	for (unsigned i = 0; i < CTL_UID_CONNS; i++)
		close(fd[i]);
}

static void strangers_are_told_the_group(void **state)
{
	struct fixture *f = *state;
	char line[512];
	int pair[2], fd;
	pid_t pid;

	if (geteuid() != 0)
		skip(); /* it takes root to be somebody else */
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	pid = fork();
	if (pid == 0) {
		char b;

		if (setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY))
			_exit(1);
		fd = socket(AF_UNIX, SOCK_STREAM, 0);
		if (connect(fd, (struct sockaddr *)&f->addr, f->addr_size) != 0)
			_exit(1);
		while (recv(fd, &b, 1, 0) == 1)
			send(pair[1], &b, 1, 0);
		_exit(0);
	}
	close(pair[1]);
	hear(f, pair[0], line, sizeof(line));
	assert_non_null(strstr(line, "\"ok\":false"));
	assert_non_null(strstr(line, "group 'varve'"));
	assert_int_equal(hear(f, pair[0], line, sizeof(line)), 0);
	close(pair[0]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(f->n_requests, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(lines_come_in_pieces_and_in_heaps, setup, teardown),
		cmocka_unit_test_setup_teardown(failure_is_one_harmless_line, setup, teardown),
		cmocka_unit_test_setup_teardown(rubbish_ends_the_connection, setup, teardown),
		cmocka_unit_test_setup_teardown(endless_line_is_cut_off, setup, teardown),
		cmocka_unit_test_setup_teardown(
			who_does_not_read_is_not_served_on, setup, teardown),
		cmocka_unit_test_setup_teardown(connection_is_handed_over, setup, teardown),
		cmocka_unit_test_setup_teardown(connections_of_a_uid_are_bounded, setup, teardown),
		cmocka_unit_test_setup_teardown(strangers_are_told_the_group, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
