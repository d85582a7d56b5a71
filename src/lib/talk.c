/* SPDX-License-Identifier: MIT */
/* The conversation with the daemon: see talk.h. */

#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include "lib/control.h"
#include "lib/objects.h"
#include "lib/sys.h"
#include "lib/talk.h"

/* Full backlogs of UNIX sockets cannot be waited for. */
#define CONNECT_AGAIN_NS 200000
/* Behind the message buffer: room for a path, that need not be on the stack. */
#define SCRATCH POOL_PAGE

static int wait_for(struct talk *t, short events)
{
	int64_t left = t->deadline - sys_now();
	int r = left > 0 ? sys_poll(t->fd, events, left) : 0;

	if (r == -EINTR)
		return 0;
	return r > 0 ? 0 : r < 0 ? r : -ETIMEDOUT;
}

static int check_peer(int fd)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		return -errno;
	return control_trusts(peer.uid) ? 0 : -EPERM;
}

int talk_init(struct talk *t, int64_t deadline)
{
	const struct sockaddr_un *address = control_socket();
	int r;

	*t = (struct talk){ .fd = -1, .pool_fd = -1, .deadline = deadline };
	t->buf = mmap(NULL, WIRE_MESSAGE_MAX + SCRATCH, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (t->buf == MAP_FAILED) {
		t->buf = NULL;
		return -ENOMEM;
	}
	t->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (t->fd < 0)
		return -errno;
	while ((r = sys_connect(t->fd, (const struct sockaddr *)address, sizeof(*address))) < 0) {
		if (r != -EAGAIN && r != -EINTR)
			return r;
		if (t->deadline - sys_now() < CONNECT_AGAIN_NS)
			return -ETIMEDOUT;
		sys_sleep(CONNECT_AGAIN_NS);
	}
	return check_peer(t->fd);
}

void talk_fini(struct talk *t)
{
	sys_close(t->fd);
	sys_close(t->pool_fd);
	if (t->buf)
		munmap(t->buf, WIRE_MESSAGE_MAX + SCRATCH);
}

static int send_message(struct talk *t, size_t size)
{
	for (;;) {
		ssize_t n = sys_send(t->fd, t->buf, size);
		int r;

		if (n >= 0)
			return (size_t)n == size ? 0 : -EMSGSIZE;
		if (n != -EAGAIN && n != -EINTR)
			return (int)n;
		r = wait_for(t, POLLOUT);
		if (r < 0)
			return r;
	}
}

/* Keeps one fd that comes along, closes all others. */
static void take_fds(struct talk *t, struct msghdr *m)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
			if (t->pool_fd < 0)
				t->pool_fd = fd;
			else
				sys_close(fd);
		}
	}
}

/* One whole message. Its size, or -errno; 0 is none: the daemon hung up. */
static ssize_t receive_message(struct talk *t)
{
	for (;;) {
		union {
			struct cmsghdr align;
			char room[CMSG_SPACE(4 * sizeof(int))];
		} control_room;
		struct iovec iov = { t->buf, WIRE_MESSAGE_MAX };
		struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
		ssize_t n;
		int r;

		m.msg_control = &control_room;
		m.msg_controllen = sizeof(control_room);
		n = sys_recvmsg(t->fd, &m);
		if (n >= 0) {
			take_fds(t, &m);
			return n == 0 ? -ECONNRESET : m.msg_flags & MSG_TRUNC ? -EMSGSIZE : n;
		}
		if (n != -EAGAIN && n != -EINTR)
			return n;
		r = wait_for(t, POLLIN);
		if (r < 0)
			return r;
	}
}

/* Fills one EVENTS message. Its size; *ret_n descriptions of it. */
static size_t fill_events(
	struct talk *t, struct objects_walk *w, const struct varve_event **pending, bool *ret_last)
{
	size_t used = wire_events_write(t->buf, 0, false);
	const struct varve_event *e = *pending;
	uint32_t n = 0;

	for (; e; e = objects_walk_next(w)) {
		ssize_t size = wire_event_write(e, t->buf + used, WIRE_MESSAGE_MAX - used);

		if (size <= 0)
			break;
		used += (size_t)size;
		n++;
	}
	*pending = e;
	*ret_last = !e;
	wire_events_write(t->buf, n, !e);
	return used;
}

int talk_ask(struct talk *t, const struct wire_hello *hello, uint64_t epoch)
{
	const struct varve_event *pending;
	struct objects_walk w;
	char *exe = (char *)t->buf + WIRE_MESSAGE_MAX;
	bool last = hello->n_events == 0;
	int r;

	if (readlink("/proc/self/exe", exe, SCRATCH - 1) < 0)
		exe[0] = 0;
	r = send_message(t, wire_hello_write(t->buf, hello, exe));
	objects_walk_init(&w, epoch);
	pending = last ? NULL : objects_walk_next(&w);
	while (r == 0 && !last)
		r = send_message(t, fill_events(t, &w, &pending, &last));
	return r;
}

int talk_welcome(struct talk *t)
{
	ssize_t n = receive_message(t);

	return n < 0 ? (int)n : wire_welcome_read(t->buf, (size_t)n, &t->welcome);
}

int talk_assign(struct talk *t, uint64_t epoch)
{
	struct objects_walk w;
	uint32_t done = 0;

	objects_walk_init(&w, epoch);
	while (done < t->welcome.n_ids) {
		struct wire_ids ids;
		ssize_t n = receive_message(t);
		int r = n < 0 ? (int)n : wire_ids_read(t->buf, (size_t)n, &ids);

		if (r < 0)
			return r;
		if (ids.first != done || ids.n == 0 || ids.n > t->welcome.n_ids - done)
			return -EBADMSG;
		for (uint32_t i = 0; i < ids.n; i++)
			objects_walk_assign(&w, wire_ids_get(t->buf, i));
		done += ids.n;
	}
	return 0;
}
