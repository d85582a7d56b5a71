/* SPDX-License-Identifier: MIT */
#ifndef VARVE_LIB_SYS_H
#define VARVE_LIB_SYS_H

/*
 * System calls as libvarve makes them: by syscall(), since the functions of these names are
 * cancellation points, and a thread must not be cancelled inside an event call. Each returns its
 * result or -errno. errno itself is spoilt; whoever is called from the program saves it.
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static inline long sys_result(long r)
{
	return r < 0 ? -errno : r;
}

static inline int sys_openat(int dir_fd, const char *path, int flags)
{
	return (int)sys_result(syscall(SYS_openat, dir_fd, path, flags | O_CLOEXEC, 0));
}

static inline void sys_close(int fd)
{
	if (fd >= 0)
		syscall(SYS_close, fd);
}

static inline ssize_t sys_read(int fd, void *buf, size_t size)
{
	return sys_result(syscall(SYS_read, fd, buf, size));
}

static inline int sys_connect(int fd, const struct sockaddr *address, socklen_t len)
{
	return (int)sys_result(syscall(SYS_connect, fd, address, len));
}

static inline ssize_t sys_send(int fd, const void *data, size_t size)
{
	return sys_result(
		syscall(SYS_sendto, fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT, NULL, 0));
}

static inline ssize_t sys_recvmsg(int fd, struct msghdr *m)
{
	return sys_result(syscall(SYS_recvmsg, fd, m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT));
}

/* Waits until fd has one of events, at most ns. Positive, 0 (time is up) or -errno. */
static inline int sys_poll(int fd, short events, int64_t ns)
{
	struct pollfd p = { .fd = fd, .events = events };
	struct timespec t = { ns / 1000000000, ns % 1000000000 };

	return (int)sys_result(syscall(SYS_ppoll, &p, 1, &t, NULL, 0));
}

static inline void sys_sleep(int64_t ns)
{
	struct timespec t = { ns / 1000000000, ns % 1000000000 };

	syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &t, NULL);
}

static inline uint32_t sys_tid(void)
{
	return (uint32_t)syscall(SYS_gettid);
}

/* Blocks all signals, those of libc's own too, and returns what was blocked before. */
static inline uint64_t sys_signals_block(void)
{
	uint64_t all = ~UINT64_C(0), old = 0;

	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &old, sizeof(all));
	return old;
}

static inline void sys_signals_restore(uint64_t old)
{
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, sizeof(old));
}

/* Not system calls, on the machines that matter. */
static inline int64_t sys_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* To the tick of the kernel: cheaper. */
static inline int64_t sys_now_coarse(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

#endif
