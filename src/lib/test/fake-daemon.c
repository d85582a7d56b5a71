/* SPDX-License-Identifier: MIT */
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

#define must(x)                                                                                    \
	do {                                                                                       \
		if (!(x)) {                                                                        \
			fprintf(stderr, "%s:%d: %s: %m\n", __FILE__, __LINE__, #x);                \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

/* --- run directory ---------------------------------------------------------------------------- */

static void make_control(struct fake *f)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/control", f->dir);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	must(fd >= 0 && ftruncate(fd, CONTROL_SIZE) == 0);
	f->control = mmap(NULL, CONTROL_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	must(f->control != MAP_FAILED);
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

	must(f);
	strcpy(f->dir, "/tmp/varve-fake-XXXXXX");
	must(mkdtemp(f->dir) && chmod(f->dir, 0755) == 0);
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
	must(f->n_layouts < FAKE_LAYOUTS_MAX);
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

	must(p && f->n_pools < FAKE_POOLS_MAX);
	must(ring_pool_init(&p->ring, &g, 1000 + f->n_pools) == 0);
	for (uint32_t ch = 0; ch < 2; ch++) {
		for (uint32_t i = 0; i < FAKE_SUBS / 2; i++)
			must(ring_promise(&p->ring, i + ch * FAKE_SUBS / 2, ch) == 0);
		for (uint32_t i = 0; i < 8; i++)
			must(ring_promise(&p->ring, FAKE_SUBS + i + ch * 8, ch) == 0);
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

		must(size >= sizeof(m));
		memcpy(&m, buf, sizeof(m));
		must(m.head.type == WIRE_EVENTS && m.n <= n_events - n);
		for (uint32_t i = 0; i < m.n; i++) {
			struct wire_event *e;

			must(wire_event_parse(buf, size, &pos, &e) == 0);
			ids[n++] = layout_id(f, e);
		}
		must(pos == size && m.last == (n == n_events));
	}
	return n;
}

static int pool_fd(struct fake *f, const struct fake_pool *p)
{
	int fd;

	if (f->manner != FAKE_UNSEALED)
		return fcntl(p->ring.fd, F_DUPFD_CLOEXEC, 0);
	fd = memfd_create("unsealed", MFD_CLOEXEC);
	must(fd >= 0 && ftruncate(fd, (off_t)geometry_span(&p->ring.geometry)) == 0);
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

		must(poll(p, f->manner == FAKE_DEAF ? 1 : 2, 20) >= 0 || errno == EINTR);
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
	must(f->listen_fd >= 0 && bind(f->listen_fd, (struct sockaddr *)&a, sizeof(a)) == 0);
	must(chmod(a.sun_path, 0666) == 0 && listen(f->listen_fd, 64) == 0);
	f->stop_fd = eventfd(0, EFD_CLOEXEC);
	make_control(f);
	must(pthread_create(&f->thread, NULL, run, f) == 0);
	atomic_store(&f->words[0], WORD_ATTACH);
}

void fake_free(struct fake *f)
{
	char command[128];

	if (f->listen_fd >= 0) {
		must(eventfd_write(f->stop_fd, 1) == 0);
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
	must(system(command) == 0);
	free(f);
}

/* --- reading back ----------------------------------------------------------------------------- */

static int64_t signed_value(uint64_t v, uint32_t size)
{
	return (int64_t)(v << (64 - 8 * size)) >> (64 - 8 * size);
}

static void print_number(FILE *out, uint8_t type, const uint8_t *data)
{
	uint32_t size = wire_type_size(type);
	uint64_t v = 0;
	double d;
	float s;

	memcpy(&v, data, size);
	if (type == VARVE_T_F32) {
		memcpy(&s, data, sizeof(s));
		fprintf(out, "%g", (double)s);
	} else if (type == VARVE_T_F64) {
		memcpy(&d, data, sizeof(d));
		fprintf(out, "%g", d);
	} else if (type >= VARVE_T_X8 && type <= VARVE_T_X64) {
		fprintf(out, "0x%" PRIx64, v);
	} else if (type >= VARVE_T_I8 && type <= VARVE_T_I64) {
		fprintf(out, "%" PRId64, signed_value(v, size));
	} else {
		fprintf(out, "%" PRIu64, v);
	}
}

static void print_enum(FILE *out, const struct wire_field *f, const uint8_t *data)
{
	uint32_t size = wire_type_size(f->element);
	bool is_signed = f->element >= VARVE_T_I8 && f->element <= VARVE_T_I64;
	uint64_t v = 0;

	memcpy(&v, data, size);
	if (is_signed)
		v = (uint64_t)signed_value(v, size);
	for (uint32_t i = 0; i < f->n_labels; i++) {
		const struct wire_label *l = &f->labels[i];

		if (is_signed ? (int64_t)v >= (int64_t)l->low && (int64_t)v <= (int64_t)l->high
			      : v >= l->low && v <= l->high)
			fprintf(out, "%s:", l->name);
	}
	print_number(out, f->element, data);
}

/* Prints one field to out, if not NULL; its length, or SIZE_MAX if it does not fit. */
static size_t walk_field(const struct wire_field *f, const uint8_t *data, size_t room, FILE *out)
{
	size_t size = wire_type_size(f->type == VARVE_T_ENUM ? f->element : f->type), n = 1,
	       head = 0;
	uint16_t count;

	switch (f->type) {
	case VARVE_T_STR:
		size = strnlen((const char *)data, room) + 1;
		break;
	case VARVE_T_ARRAY:
		n = f->length;
		size = n * wire_type_size(f->element);
		break;
	case VARVE_T_TEXT:
		size = f->length;
		break;
	case VARVE_T_SEQ:
	case VARVE_T_TEXTSEQ:
		if (room < 2)
			return SIZE_MAX;
		memcpy(&count, data, 2);
		n = count;
		head = 2;
		size = 2 + n * (f->type == VARVE_T_SEQ ? wire_type_size(f->element) : 1);
		break;
	default:
		break;
	}
	if (size > room)
		return SIZE_MAX;
	if (!out)
		return size;
	fprintf(out, " %s=", f->name);
	if (f->type == VARVE_T_STR)
		fprintf(out, "\"%s\"", (const char *)data);
	else if (f->type == VARVE_T_TEXT)
		fprintf(out, "\"%.*s\"", (int)f->length, (const char *)data);
	else if (f->type == VARVE_T_TEXTSEQ)
		fprintf(out, "\"%.*s\"", (int)n, (const char *)data + 2);
	else if (f->type == VARVE_T_ENUM)
		print_enum(out, f, data);
	else if (f->type != VARVE_T_ARRAY && f->type != VARVE_T_SEQ)
		print_number(out, f->type, data);
	else
		for (size_t i = 0; i < n; i++) {
			fputs(i ? "," : "[", out);
			print_number(out, f->element, data + head + i * wire_type_size(f->element));
		}
	if (f->type == VARVE_T_ARRAY || f->type == VARVE_T_SEQ)
		fputs(n ? "]" : "[]", out);
	return size;
}

struct line {
	uint64_t ts, order;
	char *text;
};

struct dump {
	struct fake *fake;
	struct line *lines;
	size_t n, room;
	bool count_only;
};

static uint32_t body_len(void *arg, uint32_t id, const uint8_t *body, uint32_t avail)
{
	struct dump *d = arg;
	const struct wire_event *e = id < d->fake->n_layouts ? d->fake->layouts[id] : NULL;
	size_t used = sizeof(uint32_t);

	if (!e || avail < used)
		return 0;
	for (uint32_t i = 0; i < e->n_fields; i++) {
		size_t n = walk_field(&e->fields[i], body + used, avail - used, NULL);

		if (n == SIZE_MAX)
			return 0;
		used += n;
	}
	return (uint32_t)used;
}

static void add_line(void *arg, const struct ring_record *r)
{
	struct dump *d = arg;
	const struct wire_event *e = d->fake->layouts[r->id];
	size_t size, used = sizeof(uint32_t);
	uint32_t tid;
	struct line l = { .ts = r->ts, .order = d->n };
	FILE *out;

	d->n++;
	if (d->count_only)
		return;
	out = open_memstream(&l.text, &size);
	memcpy(&tid, r->body, sizeof(tid));
	fprintf(out, "%u %s:%s", tid, e->provider, e->name);
	for (uint32_t i = 0; i < e->n_fields; i++)
		used += walk_field(&e->fields[i], r->body + used, r->body_len - used, out);
	fclose(out);
	if (d->n > d->room) {
		d->room = d->n * 2;
		d->lines = realloc(d->lines, d->room * sizeof(*d->lines));
		must(d->lines);
	}
	d->lines[d->n - 1] = l;
}

static int by_time(const void *a, const void *b)
{
	const struct line *l = a, *m = b;

	if (l->ts != m->ts)
		return l->ts < m->ts ? -1 : 1;
	return l->order < m->order ? -1 : l->order > m->order;
}

static void walk_pool(struct dump *d, struct fake_pool *p, uint32_t ch)
{
	struct ring_pool *r = &p->ring;
	struct ring_packet *packets = calloc(r->n_subs, sizeof(*packets));
	uint64_t cuts[POOL_STREAMS_MAX] = { 0 };
	uint8_t *copy = malloc(1 << 16);
	uint32_t n;

	must(packets && copy);
	pthread_mutex_lock(&d->fake->lock);
	for (uint32_t i = 0; i < r->geometry.n_streams; i++)
		if (ring_line_exists(r, ch, i))
			ring_stream_records(r, ch, i, &cuts[i]);
	n = ring_list(r, ch, cuts, packets);
	for (uint32_t i = 0; i < n; i++) {
		uint64_t last;
		uint32_t n_records;

		if (ring_copy(r, &packets[i], copy) != 0)
			continue; /* overwritten meanwhile */
		must(ring_verify(&packets[i], copy, UINT64_MAX, body_len, add_line, d, &n_records,
			     &last) == 0);
	}
	pthread_mutex_unlock(&d->fake->lock);
	free(packets);
	free(copy);
}

char *fake_records(struct fake *f, struct fake_pool *p, uint32_t ch)
{
	struct dump d = { .fake = f };
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	walk_pool(&d, p, ch);
	if (d.n)
		qsort(d.lines, d.n, sizeof(*d.lines), by_time);
	for (size_t i = 0; i < d.n; i++) {
		fprintf(out, "%s\n", d.lines[i].text);
		free(d.lines[i].text);
	}
	free(d.lines);
	fclose(out);
	return text;
}

uint64_t fake_count(struct fake *f, struct fake_pool *p, uint32_t ch)
{
	struct dump d = { .fake = f, .count_only = true };

	walk_pool(&d, p, ch);
	return d.n;
}

uint64_t fake_lost(struct fake_pool *p, uint32_t ch, enum lost_reason why)
{
	uint64_t sum[N_LOST_REASONS] = { 0 };

	for (uint32_t i = 0; i < p->ring.geometry.n_streams; i++)
		if (ring_line_exists(&p->ring, ch, i))
			ring_stream_lost(&p->ring, ch, i, sum);
	return sum[why];
}
