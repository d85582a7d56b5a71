/* SPDX-License-Identifier: MIT */
/*
 * Programs say hello: see app.h.
 *
 * The process is made when the last description has come, just before WELCOME, so what a peer that
 * never comes to an end makes us hold is one connection. If it closes without having read its
 * answer, the process and its pool are discarded: it will ask again.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/daemon.h"
#include "daemon/programs/app.h"
#include "daemon/programs/process.h"
#include "daemon/session.h"
#include "wire/event.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

#define IDS_PER_MESSAGE ((WIRE_MESSAGE_MAX - sizeof(struct wire_ids)) / sizeof(uint32_t))
#define ACCEPT_BATCH	64 /* then others have their turn */

struct app {
	uv_poll_t listener;
	struct daemon *daemon;
	int spare_fd; /* given up for a moment when the table of fds is full */
	struct list conns;
	uint8_t message[WIRE_MESSAGE_MAX + 1]; /* one more: longer ones are seen to be */
};

enum conn_state { CONN_HELLO, CONN_EVENTS, CONN_REPLY, CONN_DONE };

struct conn {
	struct list link;
	struct app *app;
	uv_poll_t poll;
	uv_timer_t deadline;
	uint32_t n_handles;
	int fd;	   /* owned */
	int pidfd; /* owned, -1 once the process has it */
	pid_t pid;
	uid_t uid;
	enum conn_state state;
	struct wire_hello hello;
	char exe[WIRE_EXE_MAX];
	uint32_t *ids; /* owned: one per description, 0 where refused */
	uint32_t n_ids, n_sent;
	uint64_t charged_bytes;
	bool welcomed; /* WELCOME has gone out */
	struct wire_welcome welcome;
	struct process *process; /* referenced: made for this connection, discarded if it fails */
};

/* --- closing -------------------------------------------------------------------------------------- */

static void conn_closed(uv_handle_t *h)
{
	struct conn *c = h->data;

	if (--c->n_handles == 0)
		free(c);
}

static void conn_close(struct conn *c)
{
	struct accounts *a = &c->app->daemon->accounts;

	list_remove(&c->link);
	account_return(a, c->uid, CHARGE_CONNECTIONS, 1);
	account_return(a, c->uid, CHARGE_BYTES, c->charged_bytes);
	uv_poll_stop(&c->poll);
	close(c->fd);
	if (c->pidfd >= 0)
		close(c->pidfd);
	free(c->ids);
	if (c->process)
		c->process = process_unref(c->process);
	uv_close((uv_handle_t *)&c->poll, conn_closed);
	uv_close((uv_handle_t *)&c->deadline, conn_closed);
}

/* It did not get its pool. */
static void conn_abort(struct conn *c)
{
	struct process *p = c->process;

	conn_close(c);
	if (p)
		process_discard(p);
}

static void conn_too_late(uv_timer_t *timer)
{
	struct conn *c = timer->data;

	/* One that is only slow to read still finds its answer in the socket. */
	if (c->state == CONN_DONE)
		conn_close(c);
	else
		conn_abort(c);
}

/* --- answering ------------------------------------------------------------------------------------ */

static int send_message(
	int fd, const void *head, size_t head_size, const void *data, size_t size, int pass_fd)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct iovec iov[2] = {
		{ .iov_base = (void *)head, .iov_len = head_size },
		{ .iov_base = (void *)data, .iov_len = size },
	};
	struct msghdr m = { .msg_iov = iov, .msg_iovlen = size ? 2 : 1 };

	if (pass_fd >= 0) {
		struct cmsghdr *cm;

		m.msg_control = &control;
		m.msg_controllen = sizeof(control.room);
		cm = CMSG_FIRSTHDR(&m);
		cm->cmsg_level = SOL_SOCKET;
		cm->cmsg_type = SCM_RIGHTS;
		cm->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(cm), &pass_fd, sizeof(int));
	}
	return sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

static int send_ids(struct conn *c)
{
	uint32_t n = c->n_ids - c->n_sent;
	struct wire_ids head = {
		.head = { .magic = WIRE_MAGIC, .version = WIRE_VERSION, .type = WIRE_IDS },
		.first = c->n_sent,
	};
	int r;

	head.n = n < IDS_PER_MESSAGE ? n : IDS_PER_MESSAGE;
	r = send_message(
		c->fd, &head, sizeof(head), c->ids + c->n_sent, head.n * sizeof(*c->ids), -1);
	if (r == 0)
		c->n_sent += head.n;
	return r;
}

static void conn_event(uv_poll_t *poll, int status, int events);

/* Sends what the socket takes. */
static void conn_send(struct conn *c)
{
	int r = 0;

	if (!c->welcomed) {
		r = send_message(c->fd, &c->welcome, sizeof(c->welcome), NULL, 0,
			c->process ? c->process->pool->ring.fd : -1);
		c->welcomed = r == 0;
	}
	while (r == 0 && c->welcome.status == WIRE_OK && c->n_sent < c->n_ids)
		r = send_ids(c);
	if (r == -EAGAIN || r == -EINTR) {
		uv_poll_start(&c->poll, UV_WRITABLE, conn_event);
		return;
	}
	if (r < 0) {
		conn_abort(c);
		return;
	}
	c->state = CONN_DONE;
	uv_poll_start(&c->poll, UV_READABLE, conn_event);
}

static void conn_answer(struct conn *c, enum wire_status status)
{
	struct daemon *d = c->app->daemon;

	c->state = CONN_REPLY;
	c->welcome = (struct wire_welcome){
		.head = { .magic = WIRE_MAGIC, .version = WIRE_VERSION, .type = WIRE_WELCOME },
		.status = status,
		.clock = d->clock.kind,
		.epoch = atomic_load(&d->rundir.control->epoch),
		.cookie = c->hello.cookie,
		.n_ids = status == WIRE_OK ? c->n_ids : 0,
	};
	if (c->process) {
		c->welcome.cookie = c->process->pool->ring.cookie;
		c->welcome.span = geometry_span(&c->process->pool->ring.geometry);
	}
	conn_send(c);
}

/* --- hello and events ----------------------------------------------------------------------------- */

static enum wire_status status_of(int error)
{
	return error == -EDQUOT ? WIRE_LIMIT : WIRE_NO_MEMORY;
}

/* All has been said: makes the process. */
static void conn_finish(struct conn *c)
{
	struct daemon *d = c->app->daemon;
	struct process_identity id = { .pid = c->pid, .uid = c->uid, .pidfd = c->pidfd };
	int r;

	if (c->hello.cookie) {
		conn_answer(c, WIRE_OK);
		return;
	}
	r = process_new(d, &id, &c->hello, c->exe, c->hello.exe_len, &c->process);
	if (r == 0) {
		c->pidfd = -1;
		process_ref(c->process);
	}
	conn_answer(c, r < 0 ? status_of(r) : WIRE_OK);
}

static void take_hello(struct conn *c, const uint8_t *data, size_t size)
{
	struct daemon *d = c->app->daemon;
	const char *exe;

	if (wire_hello_parse(data, size, &c->hello, &exe) < 0) {
		conn_answer(c, WIRE_BAD_MESSAGE);
		return;
	}
	memcpy(c->exe, exe, c->hello.exe_len);
	if (c->pid == 0)
		c->pid = c->hello.pid; /* of a namespace that we cannot see into */
	if (c->hello.cookie && !process_find(d, c->pid, c->hello.cookie)) {
		conn_answer(c, WIRE_BAD_COOKIE);
		return;
	}
	if (c->hello.epoch && c->hello.epoch != atomic_load(&d->rundir.control->epoch)) {
		conn_answer(c, WIRE_STALE);
		return;
	}
	if (c->hello.n_events == 0) {
		conn_finish(c);
		return;
	}
	c->charged_bytes = c->hello.n_events * sizeof(*c->ids);
	if (account_charge(&d->accounts, c->uid, CHARGE_BYTES, c->charged_bytes) < 0) {
		c->charged_bytes = 0;
		conn_answer(c, WIRE_LIMIT);
		return;
	}
	c->ids = calloc(c->hello.n_events, sizeof(*c->ids));
	if (!c->ids) {
		conn_answer(c, WIRE_NO_MEMORY);
		return;
	}
	c->state = CONN_EVENTS;
}

/* The id of a layout, new or known; 0 if there is no room for it. Takes the layout over. */
static uint32_t event_id(struct daemon *d, uid_t uid, struct wire_event *layout_take)
{
	const struct registry_event *e = registry_find(d->registry, layout_take);
	size_t size = wire_event_size(layout_take);

	if (e) {
		free(layout_take);
		return e->id;
	}
	if (account_charge(&d->accounts, uid, CHARGE_EVENTS, 1) < 0)
		goto refuse;
	if (account_charge(&d->accounts, uid, CHARGE_BYTES, size) < 0)
		goto refuse_event;
	if (registry_add(d->registry, layout_take, &e) < 0)
		goto refuse_bytes;
	/* The word first: who learns the id finds it right. Then the index is spent for ever. */
	atomic_store_explicit(
		&d->rundir.words[e->id], session_word(d, layout_take), memory_order_release);
	atomic_store(&d->rundir.control->next, e->id + 1);
	return e->id;

refuse_bytes:
	account_return(&d->accounts, uid, CHARGE_BYTES, size);
refuse_event:
	account_return(&d->accounts, uid, CHARGE_EVENTS, 1);
refuse:
	free(layout_take);
	return 0;
}

static void take_events(struct conn *c, const uint8_t *data, size_t size)
{
	struct wire_events head;
	struct wire_event *layout;
	size_t pos = sizeof(head);

	memcpy(&head, data, sizeof(head));
	if (head.n > c->hello.n_events - c->n_ids ||
		(head.last && head.n != c->hello.n_events - c->n_ids)) {
		conn_answer(c, WIRE_BAD_MESSAGE);
		return;
	}
	for (uint32_t i = 0; i < head.n; i++) {
		int r = wire_event_parse(data, size, &pos, &layout);

		if (r < 0) {
			conn_answer(c, r == -ENOMEM ? WIRE_NO_MEMORY : WIRE_BAD_MESSAGE);
			return;
		}
		c->ids[c->n_ids++] = event_id(c->app->daemon, c->uid, layout);
	}
	if (pos != size)
		conn_answer(c, WIRE_BAD_MESSAGE);
	else if (head.last)
		conn_finish(c);
}

static void take_message(struct conn *c, const uint8_t *data, size_t size)
{
	enum wire_type type;
	int r = wire_head_check(data, size, &type);

	if (r < 0)
		conn_answer(c, r == -EPROTONOSUPPORT ? WIRE_BAD_VERSION : WIRE_BAD_MESSAGE);
	else if (c->state == CONN_HELLO && type == WIRE_HELLO)
		take_hello(c, data, size);
	else if (c->state == CONN_EVENTS && type == WIRE_EVENTS)
		take_events(c, data, size);
	else
		conn_answer(c, WIRE_BAD_MESSAGE);
}

/* --- events of the loop --------------------------------------------------------------------------- */

static void conn_read(struct conn *c)
{
	while (c->state == CONN_HELLO || c->state == CONN_EVENTS) {
		ssize_t n = recv(c->fd, c->app->message, sizeof(c->app->message), MSG_DONTWAIT);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0) {
			conn_abort(c);
			return;
		}
		take_message(c, c->app->message, (size_t)n);
	}
}

/* The peer has closed, one way or the other; anything that it still says is not for us. */
static void conn_end(struct conn *c)
{
	char byte;
	ssize_t n = recv(c->fd, &byte, 1, MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0)
		conn_abort(c); /* it did not read its answer */
	else
		conn_close(c);
}

static void conn_event(uv_poll_t *poll, int status, int events)
{
	struct conn *c = poll->data;

	if (status < 0)
		conn_abort(c);
	else if (c->state == CONN_DONE)
		conn_end(c);
	else if (c->state == CONN_REPLY)
		conn_send(c);
	else
		conn_read(c);
}

/* A handle on the peer that cannot come to mean another process; -1 if there is none to be had. */
static int peer_pidfd(int fd, pid_t pid)
{
	socklen_t size = sizeof(int);
	int pidfd;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &size) == 0)
		return pidfd;
	if (errno != ENOPROTOOPT || pid <= 0) /* before Linux 6.5 */
		return -1;
	return (int)syscall(SYS_pidfd_open, pid, 0);
}

/* Takes fd over. */
static void conn_new(struct app *app, int fd)
{
	struct daemon *d = app->daemon;
	struct ucred peer;
	socklen_t size = sizeof(peer);
	struct conn *c;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 ||
		account_charge(&d->accounts, peer.uid, CHARGE_CONNECTIONS, 1) < 0) {
		close(fd);
		return;
	}
	c = calloc(1, sizeof(*c));
	if (!c)
		goto fail;
	c->app = app;
	c->fd = fd;
	c->pid = peer.pid;
	c->uid = peer.uid;
	c->pidfd = peer_pidfd(fd, peer.pid);
	if (c->pidfd < 0 || uv_poll_init(d->loop, &c->poll, fd) < 0)
		goto fail; /* it is gone already, or we have no fds */
	uv_timer_init(d->loop, &c->deadline);
	c->poll.data = c->deadline.data = c;
	c->n_handles = 2;
	list_append(&app->conns, &c->link);
	uv_timer_start(&c->deadline, conn_too_late, APP_DEADLINE_MS, 0);
	uv_poll_start(&c->poll, UV_READABLE, conn_event);
	/* Programs wait for us: most often hello is there by now. */
	conn_read(c);
	return;

fail:
	if (c && c->pidfd >= 0)
		close(c->pidfd);
	free(c);
	account_return(&d->accounts, peer.uid, CHARGE_CONNECTIONS, 1);
	close(fd);
}

/* With no fd left a waiting connection would keep the loop spinning: take it and drop it. */
static void drop_one(struct app *app)
{
	int fd;

	if (app->spare_fd >= 0)
		close(app->spare_fd);
	fd = accept4(app->daemon->rundir.app_fd, NULL, NULL, SOCK_CLOEXEC);
	if (fd >= 0)
		close(fd);
	app->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void listener_event(uv_poll_t *poll, int status, int events)
{
	struct app *app = poll->data;

	for (int i = 0; i < ACCEPT_BATCH; i++) {
		int fd = accept4(
			app->daemon->rundir.app_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0) {
			if (errno == EMFILE || errno == ENFILE)
				drop_one(app);
			return;
		}
		conn_new(app, fd);
	}
}

/* --- life ----------------------------------------------------------------------------------------- */

int app_init(struct daemon *d)
{
	struct app *app = calloc(1, sizeof(*app));
	int r;

	if (!app)
		return -ENOMEM;
	app->daemon = d;
	list_init(&app->conns);
	r = uv_poll_init(d->loop, &app->listener, d->rundir.app_fd);
	if (r < 0) {
		free(app);
		return r;
	}
	app->listener.data = app;
	app->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	d->app = app;
	uv_poll_start(&app->listener, UV_READABLE, listener_event);
	return 0;
}

static void app_closed(uv_handle_t *h)
{
	free(h->data);
}

void app_fini(struct daemon *d)
{
	struct app *app = d->app;
	struct conn *c;

	if (!app)
		return;
	list_for_each(c, &app->conns, struct conn, link)
		conn_abort(c);
	uv_poll_stop(&app->listener);
	if (app->spare_fd >= 0)
		close(app->spare_fd);
	uv_close((uv_handle_t *)&app->listener, app_closed);
	d->app = NULL;
}
