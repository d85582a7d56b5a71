/* SPDX-License-Identifier: MIT */
/*
 * Frames into files. The daemon says which bytes go where; the decoder has checked names, numbers
 * and sizes; here they are only written. On a terminal a line tells how far it is.
 */

#include "cli/output.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include "base/units.h"
#include "cli/cli.h"
#include "wire/frames.h"

#define PROGRESS_AFTER_NS (UINT64_C(1000) * 1000000)
#define PROGRESS_EACH_NS  (UINT64_C(100) * 1000000)

struct reception {
	struct output *output; /* borrowed */
	json_t *totals;	       /* END's; owned until it is handed out */
	char *error;	       /* owned: what ERROR said */
	bool write_failed;
	uint64_t n_bytes, planned_bytes;
	uint64_t started_ns, shown_ns;
	bool terminal, shown;
	struct frame_decoder decoder;
	int fd[FRAME_FILES_MAX]; /* owned; -1: none */
	char buf[128 * 1024];
};

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static void show_progress(struct reception *r)
{
	char done[UNITS_FORMAT_MAX], all[UNITS_FORMAT_MAX];
	uint64_t now;

	if (!r->terminal)
		return;
	now = now_ns();
	if (now - r->started_ns < PROGRESS_AFTER_NS || now - r->shown_ns < PROGRESS_EACH_NS)
		return;
	r->shown = true;
	r->shown_ns = now;
	fprintf(stderr, "\r\033[Kreceiving: %s", units_size_format(done, r->n_bytes));
	if (r->planned_bytes >= r->n_bytes)
		fprintf(stderr, " of %s, %" PRIu64 " %%", units_size_format(all, r->planned_bytes),
			r->planned_bytes ? r->n_bytes * 100 / r->planned_bytes : 100);
}

static int on_plan(void *arg, uint32_t n_files, uint64_t n_bytes)
{
	struct reception *r = arg;

	r->planned_bytes = n_bytes;
	return 0;
}

static int on_file(void *arg, uint32_t file, const char *name, uint64_t size)
{
	struct reception *r = arg;

	r->fd[file] = openat(r->output->dir_fd, name,
		O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
	if (r->fd[file] >= 0 &&
		(size == FRAME_SIZE_UNKNOWN || ftruncate(r->fd[file], (off_t)size) == 0))
		return 0;
	r->write_failed = true;
	return -errno;
}

static int on_data(void *arg, uint32_t file, uint64_t offset, const void *data, size_t len)
{
	struct reception *r = arg;
	const char *p = data;

	r->n_bytes += len;
	while (len) {
		ssize_t n = pwrite(r->fd[file], p, len, (off_t)offset);

		if (n < 0 && errno != EINTR) {
			r->write_failed = true;
			return -errno;
		}
		if (n > 0) {
			p += n;
			offset += (uint64_t)n;
			len -= (size_t)n;
		}
	}
	show_progress(r);
	return 0;
}

static int on_end(void *arg, const char *json)
{
	struct reception *r = arg;

	r->totals = json_loads(json, 0, NULL);
	return json_is_object(r->totals) ? 0 : -EBADMSG;
}

static int on_error(void *arg, const char *line)
{
	struct reception *r = arg;

	r->error = strdup(line);
	return 0;
}

static const struct frame_ops ops = {
	.plan = on_plan,
	.file = on_file,
	.data = on_data,
	.end = on_end,
	.error = on_error,
};

/* 0 when END came, else an exit code. */
static int receive_all(struct reception *r, struct client *c)
{
	int err = 0;

	while (err == 0 && r->decoder.state == FRAME_MORE) {
		ssize_t n = cli_interrupted() ? 0 : client_read(c, r->buf, sizeof(r->buf));

		if (cli_interrupted())
			return CLI_FAILED; /* the caller puts away, then dies of the signal */
		if (n == 0)
			return cli_fail(
				"the daemon in %s ended before the snapshot was whole", c->dir);
		if (n > 0)
			err = frame_decode(&r->decoder, r->buf, (size_t)n);
		else if (errno == EAGAIN)
			return cli_fail("the daemon in %s has stopped in the middle", c->dir);
		else if (errno != EINTR)
			return cli_fail("the daemon in %s: %s", c->dir, strerror(errno));
	}
	if (r->decoder.state == FRAME_FAILED)
		return cli_fail("%s", r->error ? r->error : "the snapshot failed");
	if (r->write_failed)
		return cli_fail("output '%s': %s", r->output->path, strerror(-err));
	if (err)
		return cli_fail("the daemon in %s talks rubbish", c->dir);
	return 0;
}

/* All files of a snapshot are open at a time. */
static void raise_fd_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

int output_receive(struct output *o, struct client *c, json_t **ret_totals)
{
	struct reception *r = calloc(1, sizeof(*r));
	int code, closed = 0;

	if (!r)
		return cli_fail("out of memory");
	raise_fd_limit();
	r->output = o;
	r->started_ns = now_ns();
	r->terminal = isatty(STDERR_FILENO);
	for (size_t i = 0; i < FRAME_FILES_MAX; i++)
		r->fd[i] = -1;
	frame_decoder_init(&r->decoder, &ops, r);

	code = receive_all(r, c);

	if (r->shown)
		fputs("\r\033[K", stderr);
	for (size_t i = 0; i < FRAME_FILES_MAX; i++)
		if (r->fd[i] >= 0 && close(r->fd[i]) != 0)
			closed = -errno;
	if (code == 0 && closed < 0)
		code = cli_fail("output '%s': %s", o->path, strerror(-closed));
	if (code == 0)
		*ret_totals = json_incref(r->totals);
	json_decref(r->totals);
	free(r->error);
	free(r);
	return code;
}
