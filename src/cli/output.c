/* SPDX-License-Identifier: MIT */
/*
 * The directory of a snapshot: see output.h. After output_open() everything goes through the fds of
 * two directories, so renaming or replacing a path under our feet leads nowhere else.
 */

#include "cli/output.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "cli/cli.h"
#include "cli/tree.h"

#define TEMP_TRIES 16

const char *output_time(char buf[OUTPUT_TIME_MAX], uint64_t unix_ns)
{
	time_t s = (time_t)(unix_ns / 1000000000);
	struct tm tm;

	localtime_r(&s, &tm);
	strftime(buf, OUTPUT_TIME_MAX, "%Y%m%d-%H%M%S", &tm);
	return buf;
}

/* Cuts PATH into the parent, opened, and the name in it, NULL if PATH ends in a slash. */
static int open_parent(struct output *o, const char *path)
{
	const char *slash = strrchr(path, '/');

	*o = (struct output){ .path = path, .parent_fd = -1, .dir_fd = -1 };
	if (!slash)
		o->parent = strdup(".");
	else if (slash == path)
		o->parent = strdup("/");
	else
		o->parent = strndup(path, (size_t)(slash - path));
	if (!slash || slash[1])
		o->name = strdup(slash ? slash + 1 : path);
	if (!o->parent || (!o->name && !slash))
		return cli_fail("out of memory");
	if (o->name && (strcmp(o->name, ".") == 0 || strcmp(o->name, "..") == 0))
		return cli_fail("output '%s': name a new directory, or end it with a slash", path);
	o->parent_fd = open(o->parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (o->parent_fd < 0)
		return cli_fail("output '%s': cannot open the directory '%s': %s", path, o->parent,
			strerror(errno));
	return 0;
}

/* Whether the name is free, or an empty directory's. */
static int check_name(const struct output *o)
{
	struct stat st;
	int fd, empty;

	if (!o->name || fstatat(o->parent_fd, o->name, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return 0;
	if (!S_ISDIR(st.st_mode))
		return cli_fail("output '%s' exists and is not a directory", o->path);
	fd = openat(o->parent_fd, o->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	empty = fd < 0 ? -errno : tree_is_empty(fd);
	if (fd >= 0)
		close(fd);
	if (empty < 0)
		return cli_fail("output '%s': %s", o->path, strerror(-empty));
	if (empty == 0)
		return cli_fail(
			"output '%s' exists and is not empty: name a new directory, or write "
			"'%s/' for one in it",
			o->path, o->path);
	return 0;
}

int output_check(const char *path)
{
	struct output o;
	int r = open_parent(&o, path);

	if (r == 0)
		r = check_name(&o);
	if (r == 0 && faccessat(o.parent_fd, ".", W_OK | X_OK, AT_EACCESS) != 0)
		r = cli_fail(
			"output '%s': cannot write into '%s': %s", path, o.parent, strerror(errno));
	output_close(&o);
	return r;
}

static int make_temp(struct output *o)
{
	uint32_t random;

	for (int i = 0; i < TEMP_TRIES; i++) {
		if (getrandom(&random, sizeof(random), 0) != sizeof(random))
			random = (uint32_t)getpid() * 31 + (uint32_t)i;
		snprintf(o->temp, sizeof(o->temp), ".varve-%08x", random);
		if (mkdirat(o->parent_fd, o->temp, 0700) == 0) {
			o->dir_fd = openat(o->parent_fd, o->temp,
				O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
			if (o->dir_fd >= 0 && mkdirat(o->dir_fd, "ctf", 0777) == 0)
				return 0;
			return -errno;
		}
		if (errno != EEXIST)
			break;
	}
	o->temp[0] = '\0';
	return -errno;
}

int output_open(struct output *o, const char *path)
{
	int r = open_parent(o, path);

	signal(SIGXFSZ, SIG_IGN); /* a file beyond the limit is an error like others: EFBIG */
	if (r == 0)
		r = check_name(o);
	if (r == 0) {
		r = make_temp(o);
		if (r < 0)
			r = cli_fail("output '%s': cannot write into '%s': %s", path, o->parent,
				strerror(-r));
	}
	if (r != 0)
		output_close(o);
	return r;
}

int output_commit(struct output *o, const char *session, uint64_t taken_at_ns)
{
	const char *parent = strcmp(o->parent, "/") == 0 ? "" : o->parent;
	char time[OUTPUT_TIME_MAX];
	mode_t mask = umask(0);

	umask(mask);
	/* The daemon's word, and a name of a file here. */
	if (!session || session[0] == '.' || strchr(session, '/'))
		session = "snapshot";
	if (!o->name && asprintf(&o->name, "%s-%s", session, output_time(time, taken_at_ns)) < 0)
		o->name = NULL;
	if (!o->name || asprintf(&o->shown, "%s/%s", parent, o->name) < 0)
		return cli_fail("out of memory");
	/* Takes the place of an empty directory; all else that came there meanwhile is refused. */
	if (fchmod(o->dir_fd, 0777 & ~mask) != 0 ||
		renameat(o->parent_fd, o->temp, o->parent_fd, o->name) != 0)
		return cli_fail("output '%s': %s", o->shown, strerror(errno));
	o->temp[0] = '\0';
	return 0;
}

void output_close(struct output *o)
{
	if (o->dir_fd >= 0)
		close(o->dir_fd);
	if (o->temp[0])
		tree_remove(o->parent_fd, o->temp);
	if (o->parent_fd >= 0)
		close(o->parent_fd);
	free(o->parent);
	free(o->name);
	free(o->shown);
	*o = (struct output){ .parent_fd = -1, .dir_fd = -1 };
}
