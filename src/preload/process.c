/* SPDX-License-Identifier: MIT */
/*
 * fork, exec, exit and their relatives: see real.h for the rules.
 *
 * vfork. The child runs on its parent's memory and stack, with a pid of its own, until it execs. An
 * event of it would be the parent's, so it makes none: vfork() notes the parent's pid in the thread
 * before it goes on, and every wrapper of that thread compares until it runs in the parent again.
 * What the child executed last is noted too, and told by the parent's next wrapper as vfork_exec.
 * As the function returns twice over one frame, it can have no frame of its own: note, then jump.
 * (Children of posix_spawn() stay inside libc and never come here.)
 *
 * exit. Whether main returns or somebody calls exit(), one handler makes the event: it is the first
 * that is registered behind the dynamic linker's own, so it runs after all of the program's, and
 * before the destructors of libraries, ours among them.
 */

#include "preload/real.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>

VARVE_EVENT(libc, fork, VARVE_DEBUG_PROCESS, (i32, result), (i32, error), (u64, duration));
VARVE_EVENT(libc, vfork, VARVE_DEBUG_PROCESS);
VARVE_EVENT(libc, vfork_exec, VARVE_DEBUG_PROCESS, (i32, child), (str, path));
VARVE_EVENT(libc, exec, VARVE_DEBUG_PROCESS, (str, path));
VARVE_EVENT(libc, exec_failed, VARVE_DEBUG_PROCESS, (str, path), (i32, error));
VARVE_EVENT(libc, posix_spawn, VARVE_DEBUG_PROCESS, (str, path), (i32, pid), (i32, result),
	(u64, duration));
VARVE_EVENT(libc, exit, VARVE_DEBUG_PROCESS, (i32, status));
VARVE_EVENT(libc, _exit, VARVE_DEBUG_PROCESS, (i32, status));

/* --- fork and vfork ------------------------------------------------------------------------------ */

_Thread_local pid_t vfork_parent;

/* Written by the child, read by the parent: their memory is the same. */
static _Thread_local struct {
	pid_t child; /* 0: it has not called exec */
	char path[256];
} vforked;

bool vfork_child(void)
{
	if ((pid_t)syscall(SYS_getpid) != vfork_parent)
		return true;
	vfork_parent = 0;
	if (vforked.child)
		varve_libc_vfork_exec(vforked.child, vforked.path);
	vforked.child = 0;
	return false;
}

WRAPPER pid_t fork(void)
{
	bool recorded = RECORDED(fork);
	uint64_t begun = recorded ? now_ns() : 0;
	pid_t pid = REAL(fork)();

	if (pid == 0) /* memory of its own */
		vfork_parent = vforked.child = 0;
	/* In the child too: its first event, by which it attaches. */
	if (recorded)
		varve_libc_fork(pid, pid < 0 ? errno : 0, now_ns() - begun);
	return pid;
}

__attribute__((visibility("hidden"))) pid_t (*preload_vfork)(void);

__attribute__((visibility("hidden"))) void preload_note_vfork(void);
__attribute__((used)) void preload_note_vfork(void)
{
	preload_vfork = REAL(vfork);
	if (RECORDED(vfork))
		varve_libc_vfork();
	if (!vfork_parent) {
		vfork_parent = (pid_t)syscall(SYS_getpid);
		vforked.child = 0;
	}
}

#if defined(__x86_64__)
__asm__(".text\n"
	".globl vfork\n"
	".type vfork, @function\n"
	"vfork:\n"
	"	.cfi_startproc\n"
	"	endbr64\n"
	"	subq $8, %rsp\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	call preload_note_vfork\n"
	"	addq $8, %rsp\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	jmp *preload_vfork(%rip)\n"
	"	.cfi_endproc\n"
	".size vfork, . - vfork\n");
#elif defined(__aarch64__)
__asm__(".text\n"
	".globl vfork\n"
	".type vfork, %function\n"
	"vfork:\n"
	"	.cfi_startproc\n"
	"	hint #34\n" /* bti c */
	"	stp x29, x30, [sp, #-16]!\n"
	"	.cfi_adjust_cfa_offset 16\n"
	"	.cfi_rel_offset x30, 8\n"
	"	bl preload_note_vfork\n"
	"	ldp x29, x30, [sp], #16\n"
	"	.cfi_adjust_cfa_offset -16\n"
	"	.cfi_restore x30\n"
	"	adrp x16, preload_vfork\n"
	"	ldr x16, [x16, :lo12:preload_vfork]\n"
	"	br x16\n"
	"	.cfi_endproc\n"
	".size vfork, . - vfork\n");
#else
#error "vfork() needs a few lines of assembly for this machine"
#endif

/* --- exec ---------------------------------------------------------------------------------------- */

/* The kernel has not read the path yet, and would not crash if it could not. */
static const char *path_readable(const char *path)
{
	int saved = errno;
	bool bad = syscall(SYS_faccessat, AT_FDCWD, path, F_OK) != 0 && errno == EFAULT;

	errno = saved;
	return bad ? "" : path;
}

static void exec_begins(const char *path)
{
	if (RECORDED(exec)) {
		varve_libc_exec(path_readable(path));
	} else if (vfork_parent && varve_enabled(libc, vfork_exec)) {
		strncpy(vforked.path, path_readable(path), sizeof(vforked.path) - 1);
		vforked.child = (pid_t)syscall(SYS_getpid);
	}
}

static int exec_failed(const char *path, int result)
{
	if (RECORDED(exec_failed))
		varve_libc_exec_failed(path_readable(path), errno);
	return result;
}

WRAPPER int execve(const char *path, char *const argv[], char *const envp[])
{
	exec_begins(path);
	return exec_failed(path, REAL(execve)(path, argv, envp));
}

WRAPPER int execv(const char *path, char *const argv[])
{
	exec_begins(path);
	return exec_failed(path, REAL(execv)(path, argv));
}

WRAPPER int execvp(const char *file, char *const argv[])
{
	exec_begins(file);
	return exec_failed(file, REAL(execvp)(file, argv));
}

WRAPPER int execvpe(const char *file, char *const argv[], char *const envp[])
{
	exec_begins(file);
	return exec_failed(file, REAL(execvpe)(file, argv, envp));
}

WRAPPER int fexecve(int fd, char *const argv[], char *const envp[])
{
	exec_begins("(fd)");
	return exec_failed("(fd)", REAL(fexecve)(fd, argv, envp));
}

WRAPPER int execveat(int dir, const char *path, char *const argv[], char *const envp[], int flags)
{
	exec_begins(path);
	return exec_failed(path, REAL(execveat)(dir, path, argv, envp, flags));
}

/* The arguments of a variadic call as an array, on the stack as in libc: it may be a vfork child.
 * NULL ends them; `after` runs while ap stands behind it. */
#define EXEC_LIST(first, after, call)                                                              \
	do {                                                                                       \
		va_list ap;                                                                        \
		size_t n = 1;                                                                      \
                                                                                                   \
		va_start(ap, first);                                                               \
		while (va_arg(ap, const char *))                                                   \
			n++;                                                                       \
		va_end(ap);                                                                        \
		char **argv = __builtin_alloca((n + 1) * sizeof(*argv));                           \
		argv[0] = (char *)(first);                                                         \
		va_start(ap, first);                                                               \
		for (size_t i = 1; i <= n; i++)                                                    \
			argv[i] = va_arg(ap, char *);                                              \
		after;                                                                             \
		va_end(ap);                                                                        \
		return call;                                                                       \
	} while (0)

WRAPPER int execl(const char *path, const char *arg, ...)
{
	EXEC_LIST(arg, (void)0, execv(path, argv));
}

WRAPPER int execlp(const char *file, const char *arg, ...)
{
	EXEC_LIST(arg, (void)0, execvp(file, argv));
}

WRAPPER int execle(const char *path, const char *arg, ...)
{
	char *const *envp = NULL;

	EXEC_LIST(arg, envp = va_arg(ap, char *const *), execve(path, argv, envp));
}

/* --- posix_spawn --------------------------------------------------------------------------------- */

#define SPAWN(function, pid, path, actions, attr, argv, envp)                                      \
	do {                                                                                       \
		uint64_t begun;                                                                    \
		pid_t child = 0;                                                                   \
		int r;                                                                             \
                                                                                                   \
		if (!RECORDED(posix_spawn))                                                        \
			return REAL(function)(pid, path, actions, attr, argv, envp);               \
		begun = now_ns();                                                                  \
		r = REAL(function)(&child, path, actions, attr, argv, envp);                       \
		if (r == 0 && (pid))                                                               \
			*(pid) = child;                                                            \
		varve_libc_posix_spawn(path_readable(path), child, r, now_ns() - begun);           \
		return r;                                                                          \
	} while (0)

WRAPPER int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
	const posix_spawnattr_t *attr, char *const argv[], char *const envp[])
{
	SPAWN(posix_spawn, pid, path, actions, attr, argv, envp);
}

WRAPPER int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
	const posix_spawnattr_t *attr, char *const argv[], char *const envp[])
{
	SPAWN(posix_spawnp, pid, file, actions, attr, argv, envp);
}

/* --- exit ---------------------------------------------------------------------------------------- */

static void at_exit(int status, void *arg)
{
	if (RECORDED(exit))
		varve_libc_exit(status);
}

static int (*program_main)(int argc, char **argv, char **envp);

static int main_begins(int argc, char **argv, char **envp)
{
	on_exit(at_exit, NULL);
	return program_main(argc, argv, envp);
}

int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, void (*init)(void),
	void (*fini)(void), void (*rtld_fini)(void), void *stack_end);
WRAPPER int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv,
	void (*init)(void), void (*fini)(void), void (*rtld_fini)(void), void *stack_end)
{
	program_main = main;
	return REAL(__libc_start_main)(main_begins, argc, argv, init, fini, rtld_fini, stack_end);
}

WRAPPER void _exit(int status)
{
	if (RECORDED(_exit))
		varve_libc__exit(status);
	REAL(_exit)(status);
	__builtin_unreachable();
}

WRAPPER void _Exit(int status)
{
	if (RECORDED(_exit))
		varve_libc__exit(status);
	REAL(_Exit)(status);
	__builtin_unreachable();
}
