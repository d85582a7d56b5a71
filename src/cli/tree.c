/* SPDX-License-Identifier: MIT */
/* Directory trees of our own making: see tree.h. */

#include "cli/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#define DEPTH_MAX 8

static bool is_dot(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static int remove_below(int dir_fd, const char *name, unsigned depth)
{
	struct dirent *e;
	int fd, r = 0, one;
	DIR *dir;

	if (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return -errno;
	if (unlinkat(dir_fd, name, AT_REMOVEDIR) == 0) /* without an fd: there may be none left */
		return 0;
	if (depth == 0)
		return -ELOOP;
	fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	dir = fdopendir(fd);
	if (!dir) {
		r = -errno;
		close(fd);
		return r;
	}
	while ((e = readdir(dir))) {
		one = is_dot(e->d_name) ? 0 : remove_below(fd, e->d_name, depth - 1);
		r = r ? r : one;
	}
	closedir(dir);
	if (unlinkat(dir_fd, name, AT_REMOVEDIR) != 0 && r == 0)
		r = -errno;
	return r;
}

int tree_remove(int dir_fd, const char *name)
{
	return remove_below(dir_fd, name, DEPTH_MAX);
}

int tree_is_empty(int dir_fd)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), empty = 1;
	struct dirent *e;
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;

	if (!dir) {
		empty = -errno;
		if (fd >= 0)
			close(fd);
		return empty;
	}
	while ((e = readdir(dir)))
		if (!is_dot(e->d_name))
			empty = 0;
	closedir(dir);
	return empty;
}
