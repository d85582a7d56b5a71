/* SPDX-License-Identifier: MIT */
/*
 * The run directory: see rundir.h.
 *
 * Order matters for programs that run already: the epoch changes, and old words get their bit 31,
 * before the sockets are there; word 0 tells last. A program that comes too early finds no socket,
 * and tries again 100 ms later.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/text.h"
#include "daemon/rundir.h"

#define RUNDIR_SYSTEM "/run/varve"

char *rundir_default(void)
{
	const char *user = getenv("XDG_RUNTIME_DIR");

	if (access(RUNDIR_SYSTEM, W_OK) == 0 || !user || user[0] != '/')
		return strdup(RUNDIR_SYSTEM);
	return text_format("%s/varve", user);
}

/* --- lock ----------------------------------------------------------------------------------------- */

static int lock_take(struct rundir *r, char **ret_error)
{
	char *path = text_format("%s/lock", r->path);
	char pid[32] = "";
	ssize_t n;

	if (!path)
		return -ENOMEM;
	r->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
	n = -errno;
	if (r->lock_fd < 0)
		*ret_error = text_format("%s: %s", path, strerror(errno));
	free(path);
	if (r->lock_fd < 0)
		return (int)n;
	if (flock(r->lock_fd, LOCK_EX | LOCK_NB) < 0) {
		n = pread(r->lock_fd, pid, sizeof(pid) - 1, 0);
		pid[strcspn(pid, "\n")] = '\0';
		*ret_error = text_format(
			"varved already runs in %s (pid %s)", r->path, n > 0 ? pid : "unknown");
		return -EBUSY;
	}
	n = snprintf(pid, sizeof(pid), "%d\n", (int)getpid());
	if (ftruncate(r->lock_fd, 0) < 0 || pwrite(r->lock_fd, pid, (size_t)n, 0) != n)
		return -errno;
	return 0;
}

/* --- control file --------------------------------------------------------------------------------- */

static int control_open(struct rundir *r, const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
	struct stat st;

	if (fd < 0)
		return -errno;
	/* The umask does not decide who may be traced. */
	if (fstat(fd, &st) < 0 || fchmod(fd, 0644) < 0 || !S_ISREG(st.st_mode)) {
		close(fd);
		return -EINVAL;
	}
	if (st.st_size != 0 && st.st_size != CONTROL_SIZE) {
		close(fd);
		return -EPROTO;
	}
	/* The facts and the first words are made here: without memory this is an error and not a SIGBUS. */
	if (ftruncate(fd, CONTROL_SIZE) < 0 || fallocate(fd, 0, 0, POOL_PAGE * 2) < 0) {
		close(fd);
		return -ENOSPC;
	}
	r->control = mmap(NULL, CONTROL_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (r->control == MAP_FAILED) {
		r->control = NULL;
		return -ENOMEM;
	}
	return 0;
}

/* Makes a file of nothing, or of an earlier daemon, ours. */
static int control_take_over(struct rundir *r, enum trace_clock clock)
{
	struct control_page *c = r->control;
	uint32_t next;
	uint64_t epoch;

	if (c->magic == 0) {
		c->version = CONTROL_VERSION;
		c->n_words = CONTROL_N_WORDS;
		atomic_store(&c->next, 1);
	} else if (c->magic != CONTROL_MAGIC || c->version != CONTROL_VERSION ||
		   c->n_words != CONTROL_N_WORDS) {
		return -EPROTO;
	}
	next = atomic_load(&c->next);
	if (next == 0 || next > CONTROL_N_WORDS)
		return -EPROTO;
	do {
		if (getrandom(&epoch, sizeof(epoch), 0) != sizeof(epoch))
			return -EIO;
	} while (epoch == 0 || epoch == atomic_load(&c->epoch));

	atomic_store(&c->clock, clock);
	atomic_store(&c->asleep, 0);
	atomic_store(&c->epoch, epoch);
	c->magic = CONTROL_MAGIC;
	for (uint32_t i = 1; i < next; i++)
		atomic_store_explicit(&r->words[i], WORD_ATTACH, memory_order_release);
	return 0;
}

static int control_take(struct rundir *r, enum trace_clock clock, char **ret_error)
{
	char *path = text_format("%s/control", r->path);
	int e;

	if (!path)
		return -ENOMEM;
	e = control_open(r, path);
	if (e == 0) {
		r->words = (_Atomic uint32_t *)((char *)r->control + POOL_PAGE);
		e = control_take_over(r, clock);
	}
	if (e == -EPROTO)
		*ret_error = text_format("%s is of another version of varve: remove it", path);
	else if (e < 0)
		*ret_error = text_format("%s: %s", path, strerror(-e));
	free(path);
	return e;
}

/* --- sockets -------------------------------------------------------------------------------------- */

static int socket_listen(struct rundir *r, const char *name, int type, char **ret_error)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd, e;

	if (snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/%s", r->path, name) >=
		(int)sizeof(addr.sun_path)) {
		*ret_error = text_format(
			"the run directory's path is too long for a socket (%zu bytes at most): %s",
			sizeof(addr.sun_path) - strlen(name) - 2, r->path);
		return -ENAMETOOLONG;
	}
	fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	/* We have the lock, so whatever lies there is of a daemon that is gone. */
	if ((unlink(addr.sun_path) < 0 && errno != ENOENT) ||
		bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 ||
		chmod(addr.sun_path, 0666) < 0 || listen(fd, SOMAXCONN) < 0) {
		e = -errno;
		*ret_error = text_format("%s: %s", addr.sun_path, strerror(errno));
		close(fd);
		return e;
	}
	return fd;
}

static void socket_remove(struct rundir *r, const char *name, int *fd)
{
	char *path;

	if (*fd < 0)
		return;
	path = text_format("%s/%s", r->path, name);
	if (path)
		unlink(path);
	free(path);
	close(*fd);
	*fd = -1;
}

/* --- all ------------------------------------------------------------------------------------------ */

int rundir_init(struct rundir *r, const char *path, enum trace_clock clock, char **ret_error)
{
	int e;

	*r = (struct rundir){ .lock_fd = -1, .app_fd = -1, .ctl_fd = -1 };
	*ret_error = NULL;
	r->path = strdup(path);
	if (!r->path)
		return -ENOMEM;
	if (mkdir(path, 0755) == 0)
		e = chmod(path, 0755) < 0 ? -errno : 0;
	else
		e = errno == EEXIST ? 0 : -errno;
	if (e < 0)
		*ret_error = text_format("%s: %s (--rundir DIR names another)", path, strerror(-e));
	if (e == 0)
		e = lock_take(r, ret_error);
	if (e == 0)
		e = control_take(r, clock, ret_error);
	if (e == 0) {
		r->app_fd = socket_listen(r, "app.sock", SOCK_SEQPACKET, ret_error);
		e = r->app_fd < 0 ? r->app_fd : 0;
	}
	if (e == 0) {
		r->ctl_fd = socket_listen(r, "ctl.sock", SOCK_STREAM, ret_error);
		e = r->ctl_fd < 0 ? r->ctl_fd : 0;
	}
	if (e < 0) {
		if (!*ret_error)
			*ret_error = text_format("%s: %s", path, strerror(-e));
		rundir_fini(r);
	}
	return e;
}

void rundir_listening(struct rundir *r)
{
	atomic_store_explicit(&r->words[0], WORD_ATTACH, memory_order_release);
}

void rundir_fini(struct rundir *r)
{
	if (r->control) {
		atomic_store_explicit(&r->words[0], 0, memory_order_release);
		atomic_store_explicit(&r->control->asleep, 0, memory_order_release);
		munmap(r->control, CONTROL_SIZE);
	}
	socket_remove(r, "app.sock", &r->app_fd);
	socket_remove(r, "ctl.sock", &r->ctl_fd);
	if (r->lock_fd >= 0)
		close(r->lock_fd);
	free(r->path);
	*r = (struct rundir){ .lock_fd = -1, .app_fd = -1, .ctl_fd = -1 };
}
