/* SPDX-License-Identifier: MIT */
/* The programs' socket, spoken to as programs do, and as they should not. */

#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "daemon/programs/app.h"
#include "daemon/test-device.h"

static struct device *listening(void)
{
	struct device *v = device_new();

	assert_int_equal(app_init(&v->d), 0);
	return v;
}

static void done(struct device *v)
{
	app_fini(&v->d);
	device_free(v);
}

static int program_connect(struct device *v)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	snprintf(a.sun_path, sizeof(a.sun_path), "%s/app.sock", v->dir);
	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	return fd;
}

static struct wire_hello hello(uint32_t n_events)
{
	return (struct wire_hello){
		.head = { WIRE_MAGIC, WIRE_VERSION, WIRE_HELLO },
		.room = UINT64_MAX,
		.pid = getpid(),
		.mode = RING_LOCK,
		.n_events = n_events,
		.name = "test",
	};
}

static void say(int fd, const void *data, size_t size)
{
	assert_int_equal(send(fd, data, size, MSG_NOSIGNAL), size);
}

/* n events of no fields: p:eFIRST and on, one byte of digit. */
static size_t events(uint8_t *to, uint32_t n, bool last, char first)
{
	struct wire_events head = { { WIRE_MAGIC, WIRE_VERSION, WIRE_EVENTS }, n, last };
	size_t at = sizeof(head);

	memcpy(to, &head, sizeof(head));
	for (uint32_t i = 0; i < n; i++) {
		uint8_t e[] = { VARVE_INFO, 0, 1, 'p', 2, 'e', (uint8_t)(first + (char)i) };

		memcpy(to + at, e, sizeof(e));
		at += sizeof(e);
	}
	return at;
}

/* Runs the loop until the daemon has said something. The size, 0 for an end, or -1; the fd passed
 * goes to *ret_fd, -1 for none. */
static ssize_t hear(struct device *v, int fd, void *to, size_t size, int *ret_fd)
{
	char room[CMSG_SPACE(sizeof(int))];
	struct iovec iov = { to, size };
	ssize_t n;

	*ret_fd = -1;
	for (;;) {
		struct msghdr m = { .msg_iov = &iov,
			.msg_iovlen = 1,
			.msg_control = room,
			.msg_controllen = sizeof(room) };

		uv_run(&v->loop, UV_RUN_NOWAIT);
		n = recvmsg(fd, &m, MSG_CMSG_CLOEXEC);
		if (n < 0 && errno == EAGAIN)
			continue;
		if (n > 0 && CMSG_FIRSTHDR(&m))
			memcpy(ret_fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(int));
		return n;
	}
}

/* The answer to what has been said; the pool's fd is closed. */
static struct wire_welcome welcome(struct device *v, int fd, bool pool)
{
	struct wire_welcome w;
	int passed;

	assert_int_equal(hear(v, fd, &w, sizeof(w), &passed), sizeof(w));
	assert_int_equal(w.head.type, WIRE_WELCOME);
	assert_int_equal(passed >= 0, pool);
	if (passed >= 0)
		close(passed);
	return w;
}

static void ids(struct device *v, int fd, uint32_t *to, uint32_t n)
{
	uint8_t m[WIRE_MESSAGE_MAX];
	struct wire_ids head;
	int passed;

	for (uint32_t got = 0; got < n; got += head.n) {
		assert_true(hear(v, fd, m, sizeof(m), &passed) >= (ssize_t)sizeof(head));
		memcpy(&head, m, sizeof(head));
		assert_int_equal(head.head.type, WIRE_IDS);
		assert_int_equal(head.first, got);
		memcpy(to + got, m + sizeof(head), head.n * sizeof(*to));
	}
}

static uint32_t n_processes(const struct device *v)
{
	struct process *p;
	uint32_t n = 0;

	list_for_each(p, &v->d.processes, struct process, link)
		n += p->daemon == &v->d;
	return n;
}

/* Lets the daemon see that the program has closed. */
static void settle(struct device *v)
{
	for (int i = 0; i < 10; i++)
		uv_run(&v->loop, UV_RUN_NOWAIT);
}

static void program_gets_its_pool_and_ids(void **state)
{
	struct device *v = listening();
	struct session *s = device_session(v, "a", 0, 0);
	struct wire_hello h = hello(3);
	uint8_t m[256];
	uint32_t id[3];
	struct wire_welcome w;
	int fd = program_connect(v);

	say(fd, &h, sizeof(h));
	say(fd, m, events(m, 2, false, 'a'));
	say(fd, m, events(m, 1, true, 'a')); /* the first one again */
	w = welcome(v, fd, true);
	assert_int_equal(w.status, WIRE_OK);
	assert_int_equal(w.n_ids, 3);
	assert_true(w.cookie != 0);
	ids(v, fd, id, 3);
	assert_int_equal(id[0], 1);
	assert_int_equal(id[1], 2);
	assert_int_equal(id[2], 1);
	assert_int_equal(v->d.rundir.words[2], 1u << s->channel);
	assert_int_equal(atomic_load(&v->d.rundir.control->next), 3);
	close(fd);
	settle(v);
	assert_int_equal(n_processes(v), 1);
	assert_int_equal(account_used(&v->d.accounts, getuid(), CHARGE_CONNECTIONS), 0);
	assert_int_equal(account_used(&v->d.accounts, getuid(), CHARGE_EVENTS), 2);

	/* A library comes: more events for the same pool. */
	fd = program_connect(v);
	h = hello(1);
	h.cookie = w.cookie;
	h.epoch = w.epoch;
	say(fd, &h, sizeof(h));
	say(fd, m, events(m, 1, true, 'c'));
	w = welcome(v, fd, false);
	assert_int_equal(w.status, WIRE_OK);
	ids(v, fd, id, 1);
	assert_int_equal(id[0], 3);
	close(fd);
	settle(v);
	assert_int_equal(n_processes(v), 1);
	done(v);
}

static void many_ids_take_several_messages(void **state)
{
	struct device *v = listening();
	uint32_t n = 20000, *id = calloc(n, sizeof(*id));
	struct wire_hello h = hello(n);
	uint8_t m[WIRE_MESSAGE_MAX];
	int fd = program_connect(v);

	say(fd, &h, sizeof(h));
	for (uint32_t i = 0; i < n; i += 10) {
		say(fd, m, events(m, 10, i + 10 == n, 'a'));
		uv_run(&v->loop, UV_RUN_NOWAIT);
	}
	assert_int_equal(welcome(v, fd, true).n_ids, n);
	ids(v, fd, id, n);
	assert_int_equal(id[n - 1], 10);
	free(id);
	close(fd);
	settle(v);
	done(v);
}

/* Says the messages, and expects a refusal of this kind and no process. */
static void refused(struct device *v, const struct wire_hello *h, const void *more, size_t size,
	enum wire_status want)
{
	int fd = program_connect(v);

	say(fd, h, sizeof(*h));
	if (size)
		say(fd, more, size);
	assert_int_equal(welcome(v, fd, false).status, want);
	close(fd);
	settle(v);
	assert_int_equal(n_processes(v), 0);
	assert_int_equal(account_used(&v->d.accounts, getuid(), CHARGE_CONNECTIONS), 0);
}

static void wrong_hellos_are_refused(void **state)
{
	struct device *v = listening();
	struct wire_hello h;
	uint8_t m[256];
	size_t n;

	h = hello(0);
	h.head.version++;
	refused(v, &h, NULL, 0, WIRE_BAD_VERSION);
	h = hello(0);
	h.cookie = 1;
	refused(v, &h, NULL, 0, WIRE_BAD_COOKIE);
	h = hello(0);
	h.epoch = atomic_load(&v->d.rundir.control->epoch) + 1;
	refused(v, &h, NULL, 0, WIRE_STALE);
	h = hello(0);
	h.room = 1u << 20;
	refused(v, &h, NULL, 0, WIRE_NO_MEMORY);
	h = hello(2);
	n = events(m, 1, true, 'a'); /* one is missing */
	refused(v, &h, m, n, WIRE_BAD_MESSAGE);
	h = hello(1);
	n = events(m, 1, true, 'a');
	refused(v, &h, m, n - 1, WIRE_BAD_MESSAGE);
	refused(v, &h, m, n + 1, WIRE_BAD_MESSAGE);
	refused(v, &h, &h, sizeof(h), WIRE_BAD_MESSAGE); /* hello again */
	done(v);
}

static void program_that_does_not_read_gets_nothing(void **state)
{
	struct device *v = listening();
	struct wire_hello h = hello(0);
	int fd = program_connect(v);

	device_session(v, "a", 0, 0);
	say(fd, &h, sizeof(h));
	settle(v);
	assert_int_equal(n_processes(v), 1);
	close(fd);
	settle(v);
	assert_int_equal(n_processes(v), 0);
	assert_int_equal(account_used(&v->d.accounts, getuid(), CHARGE_PROCESSES), 0);
	done(v);
}

static void uid_has_limits(void **state)
{
	struct device *v = listening();
	struct wire_hello h = hello(3);
	uint8_t m[256];
	uint32_t id[3];
	int fd[4];

	v->d.accounts.limit[CHARGE_CONNECTIONS] = 2;
	for (int i = 0; i < 3; i++)
		fd[i] = program_connect(v);
	settle(v);
	assert_int_equal(recv(fd[2], m, 1, 0), 0); /* closed at once */
	for (int i = 0; i < 3; i++)
		close(fd[i]);
	settle(v);

	/* Events beyond the limit have id 0: they are refused, the others are not. */
	v->d.accounts.limit[CHARGE_EVENTS] = 2;
	fd[0] = program_connect(v);
	say(fd[0], &h, sizeof(h));
	say(fd[0], m, events(m, 3, true, 'a'));
	assert_int_equal(welcome(v, fd[0], true).status, WIRE_OK);
	ids(v, fd[0], id, 3);
	assert_int_equal(id[1], 2);
	assert_int_equal(id[2], 0);
	close(fd[0]);
	settle(v);

	v->d.accounts.limit[CHARGE_PROCESSES] = 1;
	h = hello(0);
	fd[0] = program_connect(v);
	say(fd[0], &h, sizeof(h));
	assert_int_equal(welcome(v, fd[0], false).status, WIRE_LIMIT);
	close(fd[0]);
	settle(v);
	done(v);
}

/* Whoever says nothing, or stops in the middle, is let go after the deadline. */
static void silent_ones_are_let_go(void **state)
{
	struct device *v = listening();
	struct wire_hello h = hello(1);
	int fd[2] = { program_connect(v), program_connect(v) };
	char byte;

	say(fd[1], &h, sizeof(h));
	settle(v);
	assert_int_equal(account_used(&v->d.accounts, getuid(), CHARGE_CONNECTIONS), 2);
	while (account_used(&v->d.accounts, getuid(), CHARGE_CONNECTIONS) > 0)
		uv_run(&v->loop, UV_RUN_ONCE);
	assert_int_equal(recv(fd[0], &byte, 1, 0), 0);
	assert_int_equal(recv(fd[1], &byte, 1, 0), 0);
	assert_int_equal(account_used(&v->d.accounts, getuid(), CHARGE_BYTES), 0);
	close(fd[0]);
	close(fd[1]);
	done(v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(program_gets_its_pool_and_ids),
		cmocka_unit_test(many_ids_take_several_messages),
		cmocka_unit_test(wrong_hellos_are_refused),
		cmocka_unit_test(program_that_does_not_read_gets_nothing),
		cmocka_unit_test(uid_has_limits),
		cmocka_unit_test(silent_ones_are_let_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
