/* SPDX-License-Identifier: MIT */
/* The control file, mapped: see control.h. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include "lib/control.h"
#include "lib/sys.h"

static const struct control_page *_Atomic control;
static struct sockaddr_un app_socket = { .sun_family = AF_UNIX };
static uid_t directory_uid;

static int map_file(int dir_fd)
{
	int fd = sys_openat(dir_fd, "control", O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
	const struct control_page *c;
	struct stat st;
	int r;

	if (fd < 0)
		return fd;
	r = -ENOENT;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size < CONTROL_SIZE)
		goto out;
	/* Its owner can cut it short, and so could send us SIGBUS. */
	r = -EPERM;
	if (!control_trusts(st.st_uid))
		goto out;
	r = -ENOMEM;
	c = mmap(NULL, CONTROL_SIZE, PROT_READ, MAP_SHARED, fd, 0);
	if (c == MAP_FAILED)
		goto out;
	/* Not filled in yet is all right: it will be before bit 31 of word 0 is set. */
	if (c->magic == 0 || (c->magic == CONTROL_MAGIC && c->version == CONTROL_VERSION &&
				     c->n_words == CONTROL_N_WORDS)) {
		atomic_store_explicit(&control, c, memory_order_release);
		r = 0;
	} else {
		munmap((void *)c, CONTROL_SIZE);
		r = -EPROTO;
	}
out:
	sys_close(fd);
	return r;
}

static int map_in(const char *dir, const char *below)
{
	static const char name[] = "/app.sock";
	char *path = app_socket.sun_path;
	const size_t room = sizeof(app_socket.sun_path) - sizeof(name);
	struct stat st;
	int fd, n, r;

	n = snprintf(path, room, "%s%s", dir, below);
	if (n < 0 || (size_t)n >= room)
		return -ENAMETOOLONG;
	fd = sys_openat(AT_FDCWD, path, O_PATH | O_DIRECTORY);
	if (fd < 0)
		return fd;
	memcpy(path + n, name, sizeof(name));
	r = fstat(fd, &st) < 0 ? -errno : 0;
	if (r == 0) {
		directory_uid = st.st_uid;
		r = map_file(fd);
	}
	sys_close(fd);
	return r;
}

const struct control_page *control_page(void)
{
	return atomic_load_explicit(&control, memory_order_acquire);
}

int control_map(void)
{
	const char *dir;
	int r;

	if (control_page())
		return 0;
	dir = secure_getenv("VARVE_RUNDIR");
	if (dir && *dir)
		return map_in(dir, "");
	r = map_in("/run/varve", "");
	dir = secure_getenv("XDG_RUNTIME_DIR");
	if (r < 0 && dir && *dir)
		r = map_in(dir, "/varve");
	return r;
}

const uint32_t *control_word(uint32_t i)
{
	const struct control_page *c = control_page();

	return c && i < CONTROL_N_WORDS ? (const uint32_t *)((const char *)c + POOL_PAGE) + i
					: NULL;
}

bool control_listens(void)
{
	const uint32_t *word = control_word(0);

	return word && __atomic_load_n(word, __ATOMIC_RELAXED) & WORD_ATTACH;
}

bool control_trusts(uid_t uid)
{
	return uid == 0 || uid == directory_uid || uid == geteuid();
}

const struct sockaddr_un *control_socket(void)
{
	return &app_socket;
}
