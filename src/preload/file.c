/* SPDX-License-Identifier: MIT */
/*
 * open, close, read, write and their relatives: see real.h for the rules. The fortified entries
 * (__read_chk and so on) are what programs call that were built with -D_FORTIFY_SOURCE.
 *
 * The event comes after the call, so a path is read only where the kernel has read it before.
 */

#include "preload/real.h"

#include <errno.h>

VARVE_EVENT(libc, open, VARVE_DEBUG_FUNCTION, (str, path), (x32, flags), (x32, mode), (i32, result),
	(i32, error), (u64, duration));
VARVE_EVENT(libc, openat, VARVE_DEBUG_FUNCTION, (i32, dir), (str, path), (x32, flags), (x32, mode),
	(i32, result), (i32, error), (u64, duration));
VARVE_EVENT(
	libc, close, VARVE_DEBUG_FUNCTION, (i32, fd), (i32, result), (i32, error), (u64, duration));
VARVE_EVENT(libc, read, VARVE_DEBUG_FUNCTION, (i32, fd), (u64, size), (i64, result), (i32, error),
	(u64, duration));
VARVE_EVENT(libc, write, VARVE_DEBUG_FUNCTION, (i32, fd), (u64, size), (i64, result), (i32, error),
	(u64, duration));
VARVE_EVENT(libc, pread, VARVE_DEBUG_FUNCTION, (i32, fd), (u64, size), (i64, offset), (i64, result),
	(i32, error), (u64, duration));
VARVE_EVENT(libc, pwrite, VARVE_DEBUG_FUNCTION, (i32, fd), (u64, size), (i64, offset),
	(i64, result), (i32, error), (u64, duration));
VARVE_EVENT(libc, readv, VARVE_DEBUG_FUNCTION, (i32, fd), (i32, pieces), (i64, result),
	(i32, error), (u64, duration));
VARVE_EVENT(libc, writev, VARVE_DEBUG_FUNCTION, (i32, fd), (i32, pieces), (i64, result),
	(i32, error), (u64, duration));

static inline int error_of(ssize_t result)
{
	return result < 0 ? errno : 0;
}

/* With these errors the kernel may not have looked at the path at all. */
static inline const char *path_seen(const char *path, int error)
{
	return error == EFAULT || error == EINVAL ? "" : path;
}

/* Opens by `call`, of which fd is the result, and records it as the event open or openat. */
#define OPEN(path, flags, mode, call)                                                              \
	do {                                                                                       \
		uint64_t begun;                                                                    \
		int fd, error;                                                                     \
                                                                                                   \
		if (!RECORDED(open))                                                               \
			return call;                                                               \
		begun = now_ns();                                                                  \
		fd = call;                                                                         \
		error = error_of(fd);                                                              \
		varve_libc_open(path_seen(path, error), (uint32_t)(flags), mode, fd, error,        \
			now_ns() - begun);                                                         \
		return fd;                                                                         \
	} while (0)

#define OPENAT(dir, path, flags, mode, call)                                                       \
	do {                                                                                       \
		uint64_t begun;                                                                    \
		int fd, error;                                                                     \
                                                                                                   \
		if (!RECORDED(openat))                                                             \
			return call;                                                               \
		begun = now_ns();                                                                  \
		fd = call;                                                                         \
		error = error_of(fd);                                                              \
		varve_libc_openat(dir, path_seen(path, error), (uint32_t)(flags), mode, fd, error, \
			now_ns() - begun);                                                         \
		return fd;                                                                         \
	} while (0)

/* The mode, where the flags say that there is one. */
#define TAKE_MODE(mode, last)                                                                      \
	do {                                                                                       \
		va_list ap;                                                                        \
                                                                                                   \
		if (__OPEN_NEEDS_MODE(last)) {                                                     \
			va_start(ap, last);                                                        \
			(mode) = va_arg(ap, mode_t);                                               \
			va_end(ap);                                                                \
		}                                                                                  \
	} while (0)

WRAPPER int open(const char *path, int flags, ...)
{
	mode_t mode = 0;

	TAKE_MODE(mode, flags);
	OPEN(path, flags, mode, REAL(open)(path, flags, mode));
}

WRAPPER int open64(const char *path, int flags, ...)
{
	mode_t mode = 0;

	TAKE_MODE(mode, flags);
	OPEN(path, flags, mode, REAL(open64)(path, flags, mode));
}

WRAPPER int openat(int dir, const char *path, int flags, ...)
{
	mode_t mode = 0;

	TAKE_MODE(mode, flags);
	OPENAT(dir, path, flags, mode, REAL(openat)(dir, path, flags, mode));
}

WRAPPER int openat64(int dir, const char *path, int flags, ...)
{
	mode_t mode = 0;

	TAKE_MODE(mode, flags);
	OPENAT(dir, path, flags, mode, REAL(openat64)(dir, path, flags, mode));
}

int __open_2(const char *path, int flags);
WRAPPER int __open_2(const char *path, int flags)
{
	OPEN(path, flags, 0, REAL(__open_2)(path, flags));
}

int __open64_2(const char *path, int flags);
WRAPPER int __open64_2(const char *path, int flags)
{
	OPEN(path, flags, 0, REAL(__open64_2)(path, flags));
}

int __openat_2(int dir, const char *path, int flags);
WRAPPER int __openat_2(int dir, const char *path, int flags)
{
	OPENAT(dir, path, flags, 0, REAL(__openat_2)(dir, path, flags));
}

int __openat64_2(int dir, const char *path, int flags);
WRAPPER int __openat64_2(int dir, const char *path, int flags)
{
	OPENAT(dir, path, flags, 0, REAL(__openat64_2)(dir, path, flags));
}

WRAPPER int creat(const char *path, mode_t mode)
{
	OPEN(path, O_CREAT | O_WRONLY | O_TRUNC, mode, REAL(creat)(path, mode));
}

WRAPPER int creat64(const char *path, mode_t mode)
{
	OPEN(path, O_CREAT | O_WRONLY | O_TRUNC, mode, REAL(creat64)(path, mode));
}

WRAPPER int close(int fd)
{
	uint64_t begun;
	int r;

	if (!RECORDED(close))
		return REAL(close)(fd);
	begun = now_ns();
	r = REAL(close)(fd);
	varve_libc_close(fd, r, error_of(r), now_ns() - begun);
	return r;
}

/* Records `call` as the event name with the fields given and the result, the error, the duration. */
#define TRANSFER(name, call, ...)                                                                  \
	do {                                                                                       \
		uint64_t begun;                                                                    \
		ssize_t r;                                                                         \
                                                                                                   \
		if (!RECORDED(name))                                                               \
			return call;                                                               \
		begun = now_ns();                                                                  \
		r = call;                                                                          \
		varve_libc_##name(__VA_ARGS__, r, error_of(r), now_ns() - begun);                  \
		return r;                                                                          \
	} while (0)

WRAPPER ssize_t read(int fd, void *buf, size_t size)
{
	TRANSFER(read, REAL(read)(fd, buf, size), fd, size);
}

ssize_t __read_chk(int fd, void *buf, size_t size, size_t room);
WRAPPER ssize_t __read_chk(int fd, void *buf, size_t size, size_t room)
{
	TRANSFER(read, REAL(__read_chk)(fd, buf, size, room), fd, size);
}

WRAPPER ssize_t write(int fd, const void *buf, size_t size)
{
	TRANSFER(write, REAL(write)(fd, buf, size), fd, size);
}

WRAPPER ssize_t pread(int fd, void *buf, size_t size, off_t offset)
{
	TRANSFER(pread, REAL(pread)(fd, buf, size, offset), fd, size, offset);
}

WRAPPER ssize_t pread64(int fd, void *buf, size_t size, off64_t offset)
{
	TRANSFER(pread, REAL(pread64)(fd, buf, size, offset), fd, size, offset);
}

ssize_t __pread_chk(int fd, void *buf, size_t size, off_t offset, size_t room);
WRAPPER ssize_t __pread_chk(int fd, void *buf, size_t size, off_t offset, size_t room)
{
	TRANSFER(pread, REAL(__pread_chk)(fd, buf, size, offset, room), fd, size, offset);
}

ssize_t __pread64_chk(int fd, void *buf, size_t size, off64_t offset, size_t room);
WRAPPER ssize_t __pread64_chk(int fd, void *buf, size_t size, off64_t offset, size_t room)
{
	TRANSFER(pread, REAL(__pread64_chk)(fd, buf, size, offset, room), fd, size, offset);
}

WRAPPER ssize_t pwrite(int fd, const void *buf, size_t size, off_t offset)
{
	TRANSFER(pwrite, REAL(pwrite)(fd, buf, size, offset), fd, size, offset);
}

WRAPPER ssize_t pwrite64(int fd, const void *buf, size_t size, off64_t offset)
{
	TRANSFER(pwrite, REAL(pwrite64)(fd, buf, size, offset), fd, size, offset);
}

WRAPPER ssize_t readv(int fd, const struct iovec *pieces, int n)
{
	TRANSFER(readv, REAL(readv)(fd, pieces, n), fd, n);
}

WRAPPER ssize_t writev(int fd, const struct iovec *pieces, int n)
{
	TRANSFER(writev, REAL(writev)(fd, pieces, n), fd, n);
}
