/* SPDX-License-Identifier: MIT */
/*
 * The control socket: see ctl.h for the states of a connection and what bounds it.
 *
 * A connection is freed by libuv's close callback alone. conn_close() may be called at any point,
 * also while a request is being served: `closing` then keeps the rest away from it.
 */

#include "daemon/control/ctl.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct ctl {
	uv_poll_t listener; /* first: the close callback frees through it */
	uv_loop_t *loop;    /* borrowed */
	int listen_fd;	    /* borrowed */
	int spare_fd;	    /* given up for a moment when the table of fds is full */
	gid_t group;	    /* of CTL_GROUP; (gid_t)-1: there is none */
	ctl_request_fn *request;
	void *ctx;
	struct ctl_conn *conns; /* owned */
};

struct ctl_conn {
	uv_poll_t poll; /* first: the close callback frees through it */
	int fd;		/* owned; -1 after it was given away */
	uid_t uid;
	struct ctl *ctl;
	struct ctl_conn *prev, *next;
	bool closing; /* uv_close() was called */
	bool last;    /* close when out has gone out */
	char *out;    /* owned; the answer under way, or NULL */
	size_t out_size, out_pos;
	size_t in_size;
	char in[CTL_LINE_MAX];
};

/* --- connections -------------------------------------------------------------------------------- */

static void conn_closed(uv_handle_t *h)
{
	struct ctl_conn *c = (struct ctl_conn *)h;

	free(c->out);
	free(c);
}

static void conn_close(struct ctl_conn *c)
{
	if (c->closing)
		return;
	c->closing = true;
	if (c->prev)
		c->prev->next = c->next;
	else
		c->ctl->conns = c->next;
	if (c->next)
		c->next->prev = c->prev;
	uv_poll_stop(&c->poll);
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
	uv_close((uv_handle_t *)&c->poll, conn_closed);
}

/* Sends what it can. True when all has gone out. */
static bool conn_flush(struct ctl_conn *c)
{
	while (c->out) {
		ssize_t n =
			send(c->fd, c->out + c->out_pos, c->out_size - c->out_pos, MSG_NOSIGNAL);

		if (n < 0) {
			if (errno == EINTR)
				continue;
			if (errno != EAGAIN)
				conn_close(c);
			return false;
		}
		c->out_pos += (size_t)n;
		if (c->out_pos == c->out_size) {
			free(c->out);
			c->out = NULL;
		}
	}
	return true;
}

/* Takes the answer (stolen) over into c->out. */
static void conn_put(struct ctl_conn *c, json_t *answer)
{
	char *text = answer ? json_dumps(answer, JSON_COMPACT) : NULL;
	size_t len = text ? strlen(text) : 0;

	json_decref(answer);
	if (!text || c->out) { /* out of memory; or two answers, which is our own bug */
		free(text);
		conn_close(c);
		return;
	}
	text[len] = '\n'; /* in place of the NUL: sizes rule from here on */
	c->out = text;
	c->out_size = len + 1;
	c->out_pos = 0;
}

static json_t *answer_ok(json_t *answer)
{
	if (!answer)
		answer = json_object();
	if (answer && json_object_set_new(answer, "ok", json_true()) != 0) {
		json_decref(answer);
		answer = NULL;
	}
	return answer;
}

void ctl_answer(struct ctl_conn *c, json_t *answer)
{
	conn_put(c, answer_ok(answer));
}

void ctl_fail(struct ctl_conn *c, int exit_code, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	for (char *p = text; *p; p++)
		if ((unsigned char)*p < 0x20 || (unsigned char)*p >= 0x7f)
			*p = '?';
	conn_put(c, json_pack("{s:b, s:s, s:i}", "ok", 0, "error", text, "exit", exit_code));
}

int ctl_hand_over(struct ctl_conn *c, json_t *answer)
{
	int fd;

	conn_put(c, answer_ok(answer));
	if (c->closing)
		return -ENOMEM;
	/* Nothing was under way before, so only a peer that does not read its answers fails here. */
	if (!conn_flush(c)) {
		conn_close(c);
		return -EPIPE;
	}
	fd = c->fd;
	c->fd = -1;
	conn_close(c);
	return fd;
}

static void conn_request(struct ctl_conn *c, const char *line, size_t len)
{
	json_error_t err;
	json_t *request = json_loadb(line, len, JSON_REJECT_DUPLICATES, &err);

	if (!json_is_object(request)) {
		ctl_fail(c, 1, "the request is no JSON object: %s", request ? "" : err.text);
		c->last = true;
	} else {
		c->ctl->request(c->ctl->ctx, c, request);
	}
	json_decref(request);
}

/* Serves the lines that are there, as long as their answers go out. */
static void conn_serve(struct ctl_conn *c)
{
	while (!c->closing && conn_flush(c)) {
		const char *end = c->last ? NULL : memchr(c->in, '\n', c->in_size);
		size_t len;

		if (c->last) {
			conn_close(c);
		} else if (end) {
			len = (size_t)(end - c->in);
			conn_request(c, c->in, len);
			c->in_size -= len + 1;
			memmove(c->in, end + 1, c->in_size);
		} else if (c->in_size == sizeof(c->in)) {
			ctl_fail(c, 1, "the request is longer than %u bytes", CTL_LINE_MAX);
			c->last = true;
		} else {
			return;
		}
	}
}

static void conn_event(uv_poll_t *poll, int status, int events)
{
	struct ctl_conn *c = (struct ctl_conn *)poll;
	ssize_t n;

	if (status < 0) {
		conn_close(c);
		return;
	}
	if (!c->out) {
		n = recv(c->fd, c->in + c->in_size, sizeof(c->in) - c->in_size, 0);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0) {
			conn_close(c);
			return;
		}
		c->in_size += (size_t)n;
	}
	conn_serve(c);
	if (!c->closing)
		uv_poll_start(&c->poll, c->out ? UV_WRITABLE : UV_READABLE, conn_event);
}

/* --- who may ------------------------------------------------------------------------------------ */

static bool group_has(const struct ctl *ctl, int fd, const struct ucred *peer)
{
	gid_t groups[256]; /* more than that: the first ones count */
	socklen_t size = sizeof(groups);

	if (ctl->group == (gid_t)-1)
		return false;
	if (peer->gid == ctl->group)
		return true;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &size) != 0)
		return false;
	for (size_t i = 0; i < size / sizeof(groups[0]); i++)
		if (groups[i] == ctl->group)
			return true;
	return false;
}

/* NULL, or why this peer is turned away. */
static const char *refusal(const struct ctl *ctl, int fd, const struct ucred *peer)
{
	unsigned n = 0;

	if (peer->uid != 0 && peer->uid != geteuid() && !group_has(ctl, fd, peer))
		return "no permission: this varved obeys its own user, root and the members of group "
		       "'" CTL_GROUP "' (as root: usermod -aG " CTL_GROUP " USER)";
	for (const struct ctl_conn *c = ctl->conns; c; c = c->next)
		n += c->uid == peer->uid;
	return n >= CTL_UID_CONNS ? "too many control connections of this user" : NULL;
}

static int conn_new(struct ctl *ctl, int fd)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);
	struct ctl_conn *c;
	const char *why;
	int r;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
		return -errno;
	why = refusal(ctl, fd, &peer);
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	r = uv_poll_init(ctl->loop, &c->poll, fd);
	if (r < 0) {
		free(c);
		return r;
	}
	c->fd = fd;
	c->uid = peer.uid;
	c->ctl = ctl;
	c->next = ctl->conns;
	if (c->next)
		c->next->prev = c;
	ctl->conns = c;
	if (why) {
		/* A fresh socket takes the line at once, and the peer reads it before the end. */
		ctl_fail(c, 1, "%s", why);
		if (!c->closing)
			conn_flush(c);
		conn_close(c);
		return 0;
	}
	uv_poll_start(&c->poll, UV_READABLE, conn_event);
	return 0;
}

/* --- the listener ------------------------------------------------------------------------------- */

/* With no fd left a waiting connection would keep the loop spinning: take it and drop it. */
static void drop_one(struct ctl *ctl)
{
	int fd;

	if (ctl->spare_fd >= 0)
		close(ctl->spare_fd);
	fd = accept4(ctl->listen_fd, NULL, NULL, SOCK_CLOEXEC);
	if (fd >= 0)
		close(fd);
	ctl->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void listener_event(uv_poll_t *poll, int status, int events)
{
	struct ctl *ctl = (struct ctl *)poll;
	int fd;

	if (status < 0)
		return;
	fd = accept4(ctl->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE)
			drop_one(ctl);
		return;
	}
	if (conn_new(ctl, fd) < 0)
		close(fd);
}

int ctl_new(struct ctl **ret, uv_loop_t *loop, int listen_fd, ctl_request_fn *request, void *ctx)
{
	struct ctl *ctl = calloc(1, sizeof(*ctl));
	const struct group *group;
	int r;

	if (!ctl)
		return -ENOMEM;
	group = getgrnam(CTL_GROUP);
	*ctl = (struct ctl){
		.loop = loop,
		.listen_fd = listen_fd,
		.spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC),
		.group = group ? group->gr_gid : (gid_t)-1,
		.request = request,
		.ctx = ctx,
	};
	r = uv_poll_init(loop, &ctl->listener, listen_fd);
	if (r < 0) {
		if (ctl->spare_fd >= 0)
			close(ctl->spare_fd);
		free(ctl);
		return r;
	}
	uv_poll_start(&ctl->listener, UV_READABLE, listener_event);
	*ret = ctl;
	return 0;
}

static void ctl_closed(uv_handle_t *h)
{
	free(h);
}

void ctl_free(struct ctl *ctl)
{
	if (!ctl)
		return;
	while (ctl->conns)
		conn_close(ctl->conns);
	uv_poll_stop(&ctl->listener);
	if (ctl->spare_fd >= 0)
		close(ctl->spare_fd);
	uv_close((uv_handle_t *)&ctl->listener, ctl_closed);
}
