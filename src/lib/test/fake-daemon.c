/* SPDX-License-Identifier: MIT */
/* A daemon that does as a test wants: see fake-daemon.h. */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include <varve/abi.h>
#include "lib/test/fake-daemon.h"
#include "wire/event.h"

/* --- run directory ---------------------------------------------------------------------------- */

static void make_control(struct fake *f)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/control", f->dir);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	fake_must(fd >= 0 && ftruncate(fd, CONTROL_SIZE) == 0);
	f->control = mmap(NULL, CONTROL_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	fake_must(f->control != MAP_FAILED);
	close(fd);
	f->words = (_Atomic uint32_t *)((char *)f->control + POOL_PAGE);
	f->control->version = CONTROL_VERSION;
	f->control->n_words = CONTROL_N_WORDS;
	f->control->epoch = 77;
	f->control->clock = getenv("FAKE_CLOCK") ? (uint32_t)atoi(getenv("FAKE_CLOCK"))
#if defined(__x86_64__)
						 : TRACE_CLOCK_TSC;
#else
						 : TRACE_CLOCK_MONOTONIC;
#endif
	f->control->next = 1;
	f->control->magic = CONTROL_MAGIC;
}

struct fake *fake_new(bool absent)
{
	struct fake *f = calloc(1, sizeof(*f));

	fake_must(f);
	strcpy(f->dir, "/tmp/varve-fake-XXXXXX");
	fake_must(mkdtemp(f->dir) && chmod(f->dir, 0755) == 0);
	pthread_mutex_init(&f->lock, NULL);
	f->channels = 1;
	f->word = 1;
	f->n_layouts = 1;
	f->listen_fd = f->stop_fd = -1;
	if (!absent)
		fake_listen(f);
	return f;
}

void fake_renew(struct fake *f)
{
	pthread_mutex_lock(&f->lock);
	f->control->epoch++;
	for (uint32_t i = 1; i < f->n_layouts; i++) {
		free(f->layouts[i]);
		f->layouts[i] = NULL;
		atomic_store(&f->words[i], WORD_ATTACH);
	}
	pthread_mutex_unlock(&f->lock);
}

void fake_enable(struct fake *f, const char *name, uint32_t word)
{
	pthread_mutex_lock(&f->lock);
	for (uint32_t i = 1; i < f->n_layouts; i++) {
		const struct wire_event *e = f->layouts[i];
		char full[300];

		if (!e)
			continue;
		snprintf(full, sizeof(full), "%s:%s", e->provider, e->name);
		if (strcmp(full, name) == 0)
			atomic_store(&f->words[i], word);
	}
	pthread_mutex_unlock(&f->lock);
}

struct fake_pool *fake_pool_of(struct fake *f, pid_t pid)
{
	struct fake_pool *found = NULL;

	pthread_mutex_lock(&f->lock);
	for (uint32_t i = 0; i < f->n_pools; i++)
		if (f->pools[i]->hello.pid == pid)
			found = f->pools[i];
	pthread_mutex_unlock(&f->lock);
	return found;
}

/* --- a conversation --------------------------------------------------------------------------- */

static uint32_t layout_id(struct fake *f, struct wire_event *e)
{
	for (uint32_t i = 1; i < f->n_layouts; i++) {
		if (f->layouts[i] && wire_event_equal(f->layouts[i], e)) {
			free(e);
			return i;
		}
	}
	fake_must(f->n_layouts < FAKE_LAYOUTS_MAX);
	f->layouts[f->n_layouts] = e;
	atomic_store(&f->words[f->n_layouts], f->word);
	atomic_store(&f->control->next, f->n_layouts + 1);
	return f->n_layouts++;
}

static struct fake_pool *make_pool(struct fake *f, const struct wire_hello *h)
{
	struct pool_geometry g = { .region_shift = 22,
		.n_streams = 4,
		.n_classes = 2,
		.class_shift = { 12, 16 },
		.n_subs = { FAKE_SUBS, 16 } };
	struct fake_pool *p = calloc(1, sizeof(*p));

	fake_must(p && f->n_pools < FAKE_POOLS_MAX);
	fake_must(ring_pool_init(&p->ring, &g, 1000 + f->n_pools) == 0);
	for (uint32_t ch = 0; ch < 2; ch++) {
		for (uint32_t i = 0; i < FAKE_SUBS / 2; i++)
			fake_must(ring_promise(&p->ring, i + ch * FAKE_SUBS / 2, ch) == 0);
		for (uint32_t i = 0; i < 8; i++)
			fake_must(ring_promise(&p->ring, FAKE_SUBS + i + ch * 8, ch) == 0);
	}
	ring_header(&p->ring)->flight = 3;
	ring_header(&p->ring)->channels = f->channels;
	p->hello = *h;
	f->pools[f->n_pools++] = p;
	return p;
}

static size_t receive(int fd, void *buf, int timeout_ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	ssize_t n;

	if (poll(&p, 1, timeout_ms) <= 0)
		return 0;
	n = recv(fd, buf, WIRE_MESSAGE_MAX, 0);
	return n < 0 ? 0 : (size_t)n;
}

static void send_with_fd(int fd, const void *data, size_t size, int pass_fd)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int))];
	} u = { 0 };
	struct iovec iov = { (void *)data, size };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (pass_fd >= 0) {
		struct cmsghdr *c = &u.align;

		m.msg_control = &u;
		m.msg_controllen = sizeof(u);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &pass_fd, sizeof(pass_fd));
	}
	sendmsg(fd, &m, MSG_NOSIGNAL);
}

static void send_ids(int fd, const uint32_t *ids, uint32_t n, uint32_t at_once)
{
	static uint8_t buf[WIRE_MESSAGE_MAX];

	for (uint32_t done = 0; done < n;) {
		struct wire_ids m = { { WIRE_MAGIC, WIRE_VERSION, WIRE_IDS }, n - done, done };

		if (m.n > at_once)
			m.n = at_once;
		memcpy(buf, &m, sizeof(m));
		memcpy(buf + sizeof(m), ids + done, m.n * sizeof(*ids));
		send(fd, buf, sizeof(m) + m.n * sizeof(*ids), MSG_NOSIGNAL);
		done += m.n;
	}
}

static void send_garbage(int fd)
{
	static uint32_t turn;
	uint8_t buf[256];
	struct wire_welcome w = { { WIRE_MAGIC, WIRE_VERSION, WIRE_WELCOME }, WIRE_OK,
		TRACE_CLOCK_TSC, 77, 5, 1 << 20, 0x7fffffff, 0 };
	int zero = open("/dev/zero", O_RDWR | O_CLOEXEC);

	memset(buf, 0xa5, sizeof(buf));
	switch (turn++ % 4) {
	case 0:
		send(fd, buf, sizeof(buf), MSG_NOSIGNAL);
		break;
	case 1: /* an fd that is no pool, and more ids than were asked for */
		send_with_fd(fd, &w, sizeof(w), zero);
		break;
	case 2:
		w.n_ids = 0;
		send_with_fd(fd, &w, sizeof(w), zero);
		break;
	default:
		send_with_fd(fd, &w, 10, zero);
	}
	close(zero);
}

static uint32_t receive_events(struct fake *f, int fd, uint32_t n_events, uint32_t *ids)
{
	static uint8_t buf[WIRE_MESSAGE_MAX];
	uint32_t n = 0;

	while (n < n_events) {
		size_t size = receive(fd, buf, 1000), pos = sizeof(struct wire_events);
		struct wire_events m;

		fake_must(size >= sizeof(m));
		memcpy(&m, buf, sizeof(m));
		fake_must(m.head.type == WIRE_EVENTS && m.n <= n_events - n);
		for (uint32_t i = 0; i < m.n; i++) {
			struct wire_event *e;

			fake_must(wire_event_parse(buf, size, &pos, &e) == 0);
			ids[n++] = layout_id(f, e);
		}
		fake_must(pos == size && m.last == (n == n_events));
	}
	return n;
}

static int pool_fd(struct fake *f, const struct fake_pool *p)
{
	int fd;

	if (f->manner != FAKE_UNSEALED)
		return fcntl(p->ring.fd, F_DUPFD_CLOEXEC, 0);
	fd = memfd_create("unsealed", MFD_CLOEXEC);
	fake_must(fd >= 0 && ftruncate(fd, (off_t)geometry_span(&p->ring.geometry)) == 0);
	return fd;
}

static void serve(struct fake *f, int fd)
{
	static uint8_t buf[WIRE_MESSAGE_MAX];
	static uint32_t ids[WIRE_EVENTS_MAX];
	size_t size = receive(fd, buf, 1000);
	struct wire_hello h;
	struct fake_pool *p = NULL;
	const char *exe;
	bool wanted;
	struct wire_welcome w = { .head = { WIRE_MAGIC, WIRE_VERSION, WIRE_WELCOME },
		.clock = f->control->clock,
		.epoch = f->control->epoch };

	if (size == 0 || wire_hello_parse(buf, size, &h, &exe) < 0)
		return;
	atomic_fetch_add(&f->n_conversations, 1);
	if (f->manner == FAKE_GARBAGE) {
		send_garbage(fd);
		return;
	}
	if (f->manner == FAKE_SLOW)
		usleep(5000);
	for (uint32_t i = 0; h.cookie && i < f->n_pools; i++)
		if (f->pools[i]->ring.cookie == h.cookie && f->pools[i]->hello.pid == h.pid)
			p = f->pools[i];
	wanted = h.cookie == 0;
	if (f->manner == FAKE_REFUSE)
		w.status = WIRE_LIMIT;
	else if (h.cookie && !p)
		w.status = WIRE_BAD_COOKIE;
	else if (h.n_events == 0 && h.epoch != f->control->epoch)
		w.status = WIRE_STALE;
	if (w.status != WIRE_OK) {
		send(fd, &w, sizeof(w), MSG_NOSIGNAL);
		return;
	}
	if (!p) {
		p = make_pool(f, &h);
		memcpy(p->exe, exe, h.exe_len);
	}
	p->n_events += h.n_events;
	w.n_ids = receive_events(f, fd, h.n_events, ids);
	w.cookie = p->ring.cookie;
	w.span = geometry_span(&p->ring.geometry);
	if (wanted) {
		int pass = pool_fd(f, p);

		send_with_fd(fd, &w, sizeof(w), pass);
		close(pass);
	} else {
		send(fd, &w, sizeof(w), MSG_NOSIGNAL);
	}
	if (f->manner == FAKE_HALF)
		receive(fd, buf, 2000);
	else
		send_ids(fd, ids, w.n_ids, 3);
}

static void *run(void *arg)
{
	struct fake *f = arg;
	static uint8_t buf[WIRE_MESSAGE_MAX];

	for (;;) {
		struct pollfd p[2] = { { .fd = f->stop_fd, .events = POLLIN },
			{ .fd = f->listen_fd, .events = POLLIN } };
		int fd;

		fake_must(poll(p, f->manner == FAKE_DEAF ? 1 : 2, 20) >= 0 || errno == EINTR);
		if (p[0].revents)
			return NULL;
		if (f->manner == FAKE_DEAF)
			continue;
		fd = accept4(f->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0)
			continue;
		if (f->manner == FAKE_MUTE) {
			while (receive(fd, buf, 2000))
				continue;
		} else {
			pthread_mutex_lock(&f->lock);
			serve(f, fd);
			pthread_mutex_unlock(&f->lock);
		}
		close(fd);
	}
}

void fake_listen(struct fake *f)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	snprintf(a.sun_path, sizeof(a.sun_path), "%s/app.sock", f->dir);
	f->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	fake_must(f->listen_fd >= 0 && bind(f->listen_fd, (struct sockaddr *)&a, sizeof(a)) == 0);
	fake_must(chmod(a.sun_path, 0666) == 0 && listen(f->listen_fd, 64) == 0);
	f->stop_fd = eventfd(0, EFD_CLOEXEC);
	make_control(f);
	fake_must(pthread_create(&f->thread, NULL, run, f) == 0);
	atomic_store(&f->words[0], WORD_ATTACH);
}

void fake_free(struct fake *f)
{
	char command[128];

	if (f->listen_fd >= 0) {
		fake_must(eventfd_write(f->stop_fd, 1) == 0);
		pthread_join(f->thread, NULL);
		close(f->listen_fd);
		close(f->stop_fd);
		munmap(f->control, CONTROL_SIZE);
	}
	for (uint32_t i = 0; i < f->n_layouts; i++)
		free(f->layouts[i]);
	for (uint32_t i = 0; i < f->n_pools; i++) {
		ring_pool_fini(&f->pools[i]->ring);
		free(f->pools[i]);
	}
	snprintf(command, sizeof(command), "rm -r %s", f->dir);
	fake_must(system(command) == 0);
	free(f);
}
