/* SPDX-License-Identifier: MIT */
/*
 * subject CASE [ARG]: one behaviour each, for test-libvarve. A case that finds something wrong
 * says so on stderr and exits 1. "wait" between steps is a line from stdin, "said" one to stdout.
 */

#include "lib/test/types.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

VARVE_EVENT(subject, twice, VARVE_INFO, (u64, n));
VARVE_EVENT(subject, child, VARVE_INFO, (i32, pid), (u32, n), (str, route));
VARVE_EVENT(subject, handler, VARVE_INFO, (u32, depth), (u32, n));

#define check(x)                                                                                   \
	do {                                                                                       \
		if (!(x)) {                                                                        \
			fprintf(stderr, "subject: %s:%d: %s\n", __FILE__, __LINE__, #x);           \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

extern char **environ;

static void say(const char *text)
{
	printf("%s\n", text);
	fflush(stdout);
}

/* False at the end of stdin. */
static bool wait_line(void)
{
	char c;

	return read(0, &c, 1) == 1;
}

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* --- plain ------------------------------------------------------------------------------------ */

static void case_types(const char *language)
{
	if (strcmp(language, "c") == 0)
		emit_types();
	else
		subject_types_cpp();
}

static void case_ticks(uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		varve_subject_tick(i);
}

static void case_layouts(void)
{
	varve_subject_twice(5);
	subject_other_layout();
}

static void case_printf(void)
{
	static char big[3000];

	memset(big, 'y', sizeof(big) - 1);
	varve_printf(VARVE_WARNING, "%s and %d", "text", 42);
	varve_printf(VARVE_DEBUG_LINE, "plain");
	varve_printf(VARVE_INFO, "%s", big);
	printf("%d %d\n", varve_enabled(subject, tick), varve_enabled(subject, twice));
}

/* Waits, emits, waits ... as often as said. */
static void case_steps(uint32_t n)
{
	for (uint32_t i = 0; i < n && wait_line(); i++) {
		int64_t begun;
		char text[32];

		errno = EXDEV;
		begun = now();
		varve_subject_tick(i);
		snprintf(text, sizeof(text), "%lld", (long long)(now() - begun) / 1000);
		check(errno == EXDEV);
		say(text);
	}
}

/* The slowest of many calls, in microseconds. */
static void case_slowest(uint32_t ms)
{
	int64_t end = now() + (int64_t)ms * 1000000, slowest = 0;
	uint32_t n = 0;

	do {
		int64_t begun = now(), took;

		errno = ENOANO;
		varve_subject_tick(n++);
		check(errno == ENOANO);
		took = now() - begun;
		slowest = took > slowest ? took : slowest;
	} while (now() < end);
	printf("%lld\n", (long long)slowest / 1000);
}

/* Entries of a folder; of /proc/self/fd only what we might have left there. */
static int count_entries(const char *path, bool fds)
{
	DIR *d = opendir(path);
	struct dirent *e;
	int n = 0;

	check(d);
	while ((e = readdir(d))) {
		char link[256] = "", file[300];

		snprintf(file, sizeof(file), "%s/%s", path, e->d_name);
		if (e->d_name[0] == '.' || (fds && readlink(file, link, sizeof(link) - 1) < 0))
			continue;
		if (!fds || strstr(link, "memfd") || strstr(link, "socket") ||
			strstr(link, "varve-fake"))
			n++;
	}
	closedir(d);
	return n;
}

static void case_leftovers(void)
{
	case_ticks(100000);
	printf("%d %d\n", count_entries("/proc/self/fd", true),
		count_entries("/proc/self/task", false));
}

/* Between two writes of known text, so that strace can tell. */
static void case_syscalls(uint32_t n)
{
	/* Until all that was promised is there. */
	case_ticks(200000);
	check(write(1, "begin\n", 6) == 6);
	case_ticks(n);
	check(write(1, "end\n", 4) == 4);
}

/* --- forks ------------------------------------------------------------------------------------ */

static void child_emits(const char *route, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		varve_subject_child(getpid(), i, route);
}

static void reap(pid_t pid)
{
	int status;

	check(waitpid(pid, &status, 0) == pid && status == 0);
}

static void *emit_until_told(void *stop)
{
	for (uint32_t i = 0; !__atomic_load_n((int *)stop, __ATOMIC_RELAXED); i++) {
		varve_subject_tick(i);
		if (i % 64 == 0)
			usleep(100);
	}
	return NULL;
}

/* name is how this program was called: in a module, the module's path. */
static void case_fork(char *name, uint32_t n)
{
	char host[] = "host", child[] = "child", spawn[] = "spawn", vforked[] = "vfork";
	char *module_argv[] = { host, name, child, spawn, NULL };
	char **argv = strstr(name, ".so") ? module_argv : module_argv + 1,
	     **route = &module_argv[3];
	pthread_t thread[2];
	pid_t pid;
	int stop = 0;

	for (int i = 0; i < 2; i++)
		check(pthread_create(&thread[i], NULL, emit_until_told, &stop) == 0);
	for (uint32_t i = 0; i < n; i++) {
		fflush(stdout);
		pid = fork();
		if (pid == 0) {
			if (i % 3)
				child_emits("fork", 100);
			if (i % 3 == 1)
				_exit(0);
			exit(0);
		}
		printf("%d %d\n", pid, i % 3 ? 100 : 0);
		reap(pid);
	}
	fflush(stdout);
	pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (pid == 0) {
		child_emits("clone", 100);
		_exit(0);
	}
	printf("%d 100\n", pid);
	reap(pid);
	check(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ) == 0);
	printf("%d 100\n", pid);
	reap(pid);
	*route = vforked;
	pid = vfork();
	if (pid == 0) {
		execv("/proc/self/exe", argv);
		_exit(1);
	}
	printf("%d 100\n", pid);
	reap(pid);
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	fflush(stdout);
	/* Our stdout goes on with the daemon. */
	check(daemon(1, 1) == 0);
	child_emits("daemon", 100);
	printf("%d 100\n", getpid());
}

/* --- signals ---------------------------------------------------------------------------------- */

static _Atomic uint32_t n_handled[3];

static void handle(int sig)
{
	uint32_t depth = sig == SIGUSR1 ? 0 : sig == SIGUSR2 ? 1 : 2;

	varve_subject_handler(depth, n_handled[depth]++);
	if (depth < 2)
		raise(depth == 0 ? SIGUSR2 : SIGRTMIN);
}

static void set_handler(int sig, int flags)
{
	struct sigaction a = { .sa_handler = handle, .sa_flags = flags };

	sigemptyset(&a.sa_mask);
	check(sigaction(sig, &a, NULL) == 0);
}

/* Only the handler emits, as the first of this thread. */
static void *quiet_thread(void *ready)
{
	pthread_barrier_wait(ready);
	for (volatile int i = 0; i < 20; i++) {
		free(malloc(100));
		usleep(1000);
	}
	return NULL;
}

static void case_signals(void)
{
	struct itimerspec every = { { 0, 200000 }, { 0, 200000 } };
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
	timer_t timer;
	pthread_t thread[4];
	pthread_barrier_t ready;
	int64_t end;
	uint32_t n = 0;

	set_handler(SIGUSR1, 0);
	set_handler(SIGUSR2, 0);
	set_handler(SIGRTMIN, 0);
	pthread_barrier_init(&ready, NULL, 5);
	for (int i = 0; i < 4; i++)
		check(pthread_create(&thread[i], NULL, quiet_thread, &ready) == 0);
	pthread_barrier_wait(&ready);
	for (int i = 0; i < 4; i++)
		pthread_kill(thread[i], SIGUSR1);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	check(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
	check(timer_settime(timer, 0, &every, NULL) == 0);
	end = now() + 500000000;
	while (now() < end)
		varve_subject_tick(n++);
	timer_delete(timer);
	printf("%u %u %u %u\n", n, n_handled[0], n_handled[1], n_handled[2]);
}

/* The first event of the process comes from a handler on the smallest stack there may be; with
 * attach, where the daemon came later. */
static void case_altstack(void)
{
	size_t size = getauxval(AT_MINSIGSTKSZ) + 2048;
	stack_t stack = { .ss_sp = malloc(size), .ss_size = size };

	check(stack.ss_sp && sigaltstack(&stack, NULL) == 0);
	memset(stack.ss_sp, 0x5a, size);
	set_handler(SIGRTMIN, SA_ONSTACK);
	say("ready");
	wait_line();
	raise(SIGRTMIN);
	for (size_t i = 0; i < 64; i++)
		check(((unsigned char *)stack.ss_sp)[i] == 0x5a);
	check(n_handled[2] == 1);
}

/* --- objects ---------------------------------------------------------------------------------- */

#ifdef SUBJECT_STATIC
static void case_load(const char *plugin, uint32_t n)
{
	(void)plugin;
	(void)n;
	check(!"a static program loads nothing");
}

static void case_storm(const char *folder, bool quick)
{
	case_load(folder, quick);
}
#else
static void case_load(const char *plugin, uint32_t n)
{
	for (uint32_t i = 1; i <= n; i++) {
		void *module = dlopen(plugin, RTLD_NOW);
		void (*call)(uint32_t);

		if (!module)
			fprintf(stderr, "%s\n", dlerror());
		check(module);
		*(void **)&call = dlsym(module, "plugin_call");
		check(call);
		call(i);
		check(dlclose(module) == 0);
		check(!dlopen(plugin, RTLD_NOW | RTLD_NOLOAD));
	}
}

static void *tick_for_ever(void *unused)
{
	(void)unused;
	for (uint32_t i = 0;; i++) {
		varve_subject_tick(i);
		if (i % 256 == 0)
			usleep(500);
	}
	return NULL;
}

static _Atomic int loaders;

static void *load_until_told(void *plugin)
{
	loaders++;
	for (uint32_t i = 0; loaders > 0; i++) {
		void *module = dlopen(plugin, RTLD_NOW);
		void (*call)(uint32_t);

		check(module);
		*(void **)&call = dlsym(module, "plugin_call");
		call(i);
		dlclose(module);
	}
	return NULL;
}

/* All at once: threads that emit, load and unload, and fork; then exit() or quick_exit() while
 * threads still emit. */
static void case_storm(const char *folder, bool quick)
{
	char path[2][512];
	pthread_t thread[4], loader[4];
	int64_t until = now() + 1500000000;

	for (int i = 0; i < 4; i++)
		check(pthread_create(&thread[i], NULL, tick_for_ever, NULL) == 0);
	for (int i = 0; i < 4; i++) {
		snprintf(path[i % 2], sizeof(path[0]), "%s/subject-plugin%s.so", folder,
			i % 2 ? "2" : "");
		check(pthread_create(&loader[i], NULL, load_until_told, path[i % 2]) == 0);
	}
	while (now() < until) {
		pid_t pid = fork();

		if (pid == 0) {
			child_emits("storm", 10);
			_exit(0);
		}
		reap(pid);
		usleep(20000);
	}
	loaders = -100;
	for (int i = 0; i < 4; i++)
		pthread_join(loader[i], NULL);
	if (quick)
		quick_exit(0);
}
#endif

/* --- seccomp ---------------------------------------------------------------------------------- */

/* From here on every system call but write, exit and prctl is death. */
static void case_seccomp(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 4, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_read, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };

	check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	check(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
	check(write(1, "ready\n", 6) == 6);
	wait_line();
	for (uint32_t i = 0; i < 10000; i++)
		varve_subject_tick(i);
	check(write(1, "done\n", 5) == 5);
	_exit(0);
}

int subject_main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";
	const char *arg = argc > 2 ? argv[2] : "";
	uint32_t n = (uint32_t)atoi(arg);

	if (strcmp(name, "types") == 0)
		case_types(arg);
	else if (strcmp(name, "ticks") == 0)
		case_ticks(n);
	else if (strcmp(name, "layouts") == 0)
		case_layouts();
	else if (strcmp(name, "printf") == 0)
		case_printf();
	else if (strcmp(name, "steps") == 0)
		case_steps(n);
	else if (strcmp(name, "slowest") == 0)
		case_slowest(n);
	else if (strcmp(name, "leftovers") == 0)
		case_leftovers();
	else if (strcmp(name, "syscalls") == 0)
		case_syscalls(n);
	else if (strcmp(name, "fork") == 0)
		case_fork(argv[0], n);
	else if (strcmp(name, "child") == 0)
		child_emits(arg, 100);
	else if (strcmp(name, "signals") == 0)
		case_signals();
	else if (strcmp(name, "altstack") == 0)
		case_altstack();
	else if (strcmp(name, "load") == 0)
		case_load(arg, 50);
	else if (strcmp(name, "storm") == 0 || strcmp(name, "quick-storm") == 0)
		case_storm(arg, name[0] == 'q');
	else if (strcmp(name, "seccomp") == 0)
		case_seccomp();
	else
		return 97;
	return 0;
}
