/* SPDX-License-Identifier: MIT */

/* Frames onto a socket: see sink.h. */

#include "daemon/snapshot/sink.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define LOOK_MS	     100 /* how often cancel is looked at while the receiver is slow */
#define STDIO_BUFFER 65536

/* Waits until the socket takes more. */
static int wait_writable(struct sink *s, uint32_t *waited_ms)
{
	struct pollfd p = { .fd = s->fd, .events = POLLOUT };
	int r;

	if (atomic_load_explicit(s->cancel, memory_order_relaxed))
		return -ECANCELED;
	r = poll(&p, 1, LOOK_MS);
	if (r < 0 && errno != EINTR)
		return -errno;
	if (r == 0) {
		*waited_ms += LOOK_MS;
		if (*waited_ms >= s->stall_ms)
			return -ETIMEDOUT;
	}
	return 0;
}

/* Sends head and body. Time counts anew whenever the receiver took something. */
static int send_all(struct sink *s, const void *head, size_t head_len, const void *body, size_t len)
{
	struct iovec v[2] = { { (void *)(uintptr_t)head, head_len },
		{ (void *)(uintptr_t)body, len } };
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };
	uint32_t waited_ms = 0;

	while (m.msg_iovlen > 0) {
		ssize_t n = sendmsg(s->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
		int r = 0;

		if (n < 0 && errno == EAGAIN)
			r = wait_writable(s, &waited_ms);
		else if (n < 0 && errno != EINTR)
			r = -errno;
		if (r < 0)
			return r;
		if (n > 0)
			waited_ms = 0;
		while (m.msg_iovlen > 0 && (n > 0 || m.msg_iov->iov_len == 0)) {
			size_t part = (size_t)(n > 0 ? n : 0);

			part = part < m.msg_iov->iov_len ? part : m.msg_iov->iov_len;
			m.msg_iov->iov_base = (char *)m.msg_iov->iov_base + part;
			m.msg_iov->iov_len -= part;
			n -= (ssize_t)part;
			if (m.msg_iov->iov_len > 0)
				break;
			m.msg_iov++;
			m.msg_iovlen--;
		}
	}
	return 0;
}

int sink_frame(struct sink *s, enum frame_type type, uint32_t file, uint64_t offset,
	const void *body, size_t len)
{
	const uint8_t *p = body;

	do {
		size_t part = len < FRAME_DATA_MAX ? len : FRAME_DATA_MAX;
		struct frame_head h = frame_head_make(type, file, offset, (uint32_t)part);

		if (s->error == 0)
			s->error = send_all(s, &h, sizeof(h), p, part);
		if (type == FRAME_DATA)
			s->n_bytes += part;
		p = p ? p + part : p;
		offset += part;
		len -= part;
	} while (len > 0);
	return s->error;
}

int sink_file(struct sink *s, const char *name, uint64_t size)
{
	int r;

	if (s->n_files == FRAME_FILES_MAX && s->error == 0)
		s->error = -EMFILE;
	r = sink_frame(s, FRAME_FILE, s->n_files, size, name, strlen(name));
	return r < 0 ? r : (int)s->n_files++;
}

struct stdio_file {
	struct sink *sink;
	uint32_t file;
	uint64_t at;
};

static ssize_t stdio_write(void *cookie, const char *data, size_t len)
{
	struct stdio_file *f = cookie;

	if (len == 0)
		return 0;
	if (sink_frame(f->sink, FRAME_DATA, f->file, f->at, data, len) < 0) {
		errno = -f->sink->error;
		return 0; /* fopencookie(3): how a write function fails */
	}
	f->at += len;
	return (ssize_t)len;
}

static int stdio_close(void *cookie)
{
	free(cookie);
	return 0;
}

FILE *sink_open(struct sink *s, const char *name)
{
	static const cookie_io_functions_t io = { .write = stdio_write, .close = stdio_close };
	int file = sink_file(s, name, FRAME_SIZE_UNKNOWN);
	struct stdio_file *f;
	FILE *ret;

	if (file < 0)
		return NULL;
	f = malloc(sizeof(*f));
	if (!f) {
		s->error = -ENOMEM;
		return NULL;
	}
	*f = (struct stdio_file){ s, (uint32_t)file, 0 };
	ret = fopencookie(f, "w", io);
	if (!ret) {
		free(f);
		s->error = -ENOMEM;
		return NULL;
	}
	setvbuf(ret, NULL, _IOFBF, STDIO_BUFFER);
	return ret;
}
