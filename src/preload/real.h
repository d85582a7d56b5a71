/* SPDX-License-Identifier: MIT */
#ifndef VARVE_PRELOAD_REAL_H
#define VARVE_PRELOAD_REAL_H

/*
 * What all wrappers of libvarve-preload-libc.so share. The library stands before libc in the order
 * of symbols; each wrapper calls the next function of its name, libc's or whoever's the program
 * brought along (an allocator), and makes an event of the call if somebody records it.
 *
 * The rules of a wrapper:
 *  - The program sees what it would see without: the same result, the same errno, the same
 *    cancellation points; nothing is read through a pointer that the call itself did not read.
 *  - Not recorded, it costs a load and a branch more. It may run before any constructor, in a signal
 *    handler, in a thread that is being made, and in a child that shares our memory.
 *  - No recursion: libvarve makes its own system calls and allocates nothing, so nothing that an
 *    event does comes back here. Looking up the next functions may; see real.c.
 */

/* meson asks for 64-bit offsets by renaming open() to open64(); here both are what they are. */
#undef _FILE_OFFSET_BITS

#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include <varve/varve.h>

#define WRAPPER __attribute__((visibility("default")))

/* Name, result, parameters of every function that is called on. */
#define REAL_FUNCTIONS(X)                                                                          \
	X(malloc, void *, (size_t))                                                                \
	X(calloc, void *, (size_t, size_t))                                                        \
	X(realloc, void *, (void *, size_t))                                                       \
	X(free, void, (void *))                                                                    \
	X(aligned_alloc, void *, (size_t, size_t))                                                 \
	X(posix_memalign, int, (void **, size_t, size_t))                                          \
	X(memalign, void *, (size_t, size_t))                                                      \
	X(valloc, void *, (size_t))                                                                \
	X(pvalloc, void *, (size_t))                                                               \
	X(open, int, (const char *, int, ...))                                                     \
	X(open64, int, (const char *, int, ...))                                                   \
	X(openat, int, (int, const char *, int, ...))                                              \
	X(openat64, int, (int, const char *, int, ...))                                            \
	X(__open_2, int, (const char *, int))                                                      \
	X(__open64_2, int, (const char *, int))                                                    \
	X(__openat_2, int, (int, const char *, int))                                               \
	X(__openat64_2, int, (int, const char *, int))                                             \
	X(creat, int, (const char *, mode_t))                                                      \
	X(creat64, int, (const char *, mode_t))                                                    \
	X(close, int, (int))                                                                       \
	X(read, ssize_t, (int, void *, size_t))                                                    \
	X(__read_chk, ssize_t, (int, void *, size_t, size_t))                                      \
	X(write, ssize_t, (int, const void *, size_t))                                             \
	X(pread, ssize_t, (int, void *, size_t, off_t))                                            \
	X(pread64, ssize_t, (int, void *, size_t, off64_t))                                        \
	X(__pread_chk, ssize_t, (int, void *, size_t, off_t, size_t))                              \
	X(__pread64_chk, ssize_t, (int, void *, size_t, off64_t, size_t))                          \
	X(pwrite, ssize_t, (int, const void *, size_t, off_t))                                     \
	X(pwrite64, ssize_t, (int, const void *, size_t, off64_t))                                 \
	X(readv, ssize_t, (int, const struct iovec *, int))                                        \
	X(writev, ssize_t, (int, const struct iovec *, int))                                       \
	X(fork, pid_t, (void))                                                                     \
	X(vfork, pid_t, (void))                                                                    \
	X(execve, int, (const char *, char *const[], char *const[]))                               \
	X(execv, int, (const char *, char *const[]))                                               \
	X(execvp, int, (const char *, char *const[]))                                              \
	X(execvpe, int, (const char *, char *const[], char *const[]))                              \
	X(fexecve, int, (int, char *const[], char *const[]))                                       \
	X(execveat, int, (int, const char *, char *const[], char *const[], int))                   \
	X(posix_spawn, int,                                                                        \
		(pid_t *, const char *, const posix_spawn_file_actions_t *,                        \
			const posix_spawnattr_t *, char *const[], char *const[]))                  \
	X(posix_spawnp, int,                                                                       \
		(pid_t *, const char *, const posix_spawn_file_actions_t *,                        \
			const posix_spawnattr_t *, char *const[], char *const[]))                  \
	X(_exit, void, (int))                                                                      \
	X(_Exit, void, (int))                                                                      \
	X(__libc_start_main, int,                                                                  \
		(int (*)(int, char **, char **), int, char **, void (*)(void), void (*)(void),     \
			void (*)(void), void *))

#define REAL_POINTER(name, result, parameters) result(*name) parameters;
struct real {
	REAL_FUNCTIONS(REAL_POINTER)
};
#undef REAL_POINTER

extern struct real real_functions;
extern _Atomic bool real_ready;
void real_resolve(void);
/* Whether this thread is just looking the next functions up. */
extern _Thread_local bool real_resolving;

/* The next function of this name. */
#define REAL(name) (real_get()->name)

static inline const struct real *real_get(void)
{
	if (__builtin_expect(!atomic_load_explicit(&real_ready, memory_order_acquire), 0))
		real_resolve();
	return &real_functions;
}

/* --- whether, and when --------------------------------------------------------------------------- */

/* Pid of the process whose thread has called vfork(); 0: it has not. See process.c. */
extern _Thread_local pid_t vfork_parent;
bool vfork_child(void);

/* Whether a wrapper is to make an event: not in a child that shares its parent's memory. */
#define RECORDED(name) (varve_enabled(libc, name) && !(vfork_parent && vfork_child()))

static inline uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

#endif
