/* SPDX-License-Identifier: MIT */
/*
 * The wrappers of libvarve-preload-libc.so, linked into this program in front of libc, with a
 * libvarve of our own that switches single events on and notes what is emitted, in memory that
 * children share.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include <varve/abi.h>

/* --- libvarve, as far as this test needs it -------------------------------------------------------- */

#define NOTES_MAX 256

struct note {
	char name[32];
	pid_t pid;
	size_t len;
	unsigned char payload[128];
};

struct notes {
	_Atomic unsigned n;
	struct note note[NOTES_MAX];
};

static struct notes *notes; /* shared with children */

static struct varve_event **events, **events_end;
static const uint32_t on = 1, off;

void varve_object_register(struct varve_object *o)
{
	notes = mmap(
		NULL, sizeof(*notes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	events = o->begin;
	events_end = o->end;
}

void varve_object_unregister(struct varve_object *o)
{
}

void varve_event_emit(const struct varve_event *e, void *payload, size_t len)
{
	unsigned i = atomic_fetch_add(&notes->n, 1);
	struct note *n = &notes->note[i % NOTES_MAX];

	strncpy(n->name, e->name, sizeof(n->name) - 1);
	n->pid = getpid();
	n->len = len;
	memcpy(n->payload, payload, len < sizeof(n->payload) ? len : sizeof(n->payload));
}

static struct varve_event *event(const char *name)
{
	for (struct varve_event **e = events; e < events_end; e++)
		if (strcmp((*e)->name, name) == 0)
			return *e;
	fail_msg("there is no event %s", name);
	return NULL;
}

/* Only these events are recorded from here on; names up to NULL. */
static void record(const char *name, ...)
{
	va_list ap;

	for (struct varve_event **e = events; e < events_end; e++)
		(*e)->word = &off;
	notes->n = 0;
	va_start(ap, name);
	for (; name; name = va_arg(ap, const char *))
		event(name)->word = &on;
	va_end(ap);
}

static void record_nothing(void)
{
	unsigned n = notes->n;

	record(NULL);
	notes->n = n;
}

/* The i-th event is of this name. Its fields stand at *ret, byte-packed. */
static const struct note *noted(unsigned i, const char *name)
{
	assert_true(i < notes->n);
	assert_string_equal(notes->note[i].name, name);
	return &notes->note[i];
}

static int64_t number(const struct note *n, size_t at, size_t size)
{
	int32_t narrow;
	int64_t wide;

	if (size == 4) {
		memcpy(&narrow, n->payload + at, 4);
		return narrow;
	}
	memcpy(&wide, n->payload + at, 8);
	return wide;
}

static int status_of(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* --- tests -------------------------------------------------------------------------------------- */

static void files_are_recorded_and_errno_is_exact(void **state)
{
	struct iovec piece = { .iov_base = (char[4]){ 0 }, .iov_len = 4 };
	char path[] = "/tmp/varve-test-libc-XXXXXX", buf[16];
	int fd = mkstemp(path), missing, r;

	close(fd);
	record("open", "openat", "close", "read", "write", "pread", "pwrite", "readv", "writev",
		NULL);
	errno = 77;
	fd = open(path, O_RDWR | O_CREAT, 0640);
	r = write(fd, "hello", 5) == 5 && pwrite(fd, "J", 1, 0) == 1 && pread(fd, buf, 4, 1) == 4;
	lseek(fd, 0, SEEK_SET);
	r = r && read(fd, buf, 16) == 5 && memcmp(buf, "Jello", 5) == 0;
	lseek(fd, 0, SEEK_SET);
	r = r && readv(fd, &piece, 1) == 4 && writev(fd, &piece, 1) == 4 && close(fd) == 0;
	r = r && errno == 77;
	missing = openat(AT_FDCWD, "/no/such/file", O_RDONLY) < 0 && errno == ENOENT;
	missing = missing && close(-1) < 0 && errno == EBADF;
	record_nothing();
	unlink(path);
	assert_true(r);
	assert_true(missing);

	assert_string_equal((const char *)noted(0, "open")->payload, path);
	assert_int_equal(number(noted(0, "open"), sizeof(path) + 4, 4), 0640);
	assert_int_equal(number(noted(0, "open"), sizeof(path) + 8, 4), fd);
	assert_int_equal(number(noted(1, "write"), 12, 8), 5);
	assert_int_equal(number(noted(2, "pwrite"), 20, 8), 1);
	assert_int_equal(number(noted(3, "pread"), 12, 8), 1);
	assert_int_equal(number(noted(4, "read"), 4, 8), 16);
	assert_int_equal(number(noted(4, "read"), 12, 8), 5);
	assert_int_equal(number(noted(4, "read"), 20, 4), 0);
	assert_true(number(noted(4, "read"), 24, 8) > 0); /* duration */
	noted(5, "readv");
	noted(6, "writev");
	assert_int_equal(number(noted(7, "close"), 4, 4), 0);
	assert_string_equal((const char *)noted(8, "openat")->payload + 4, "/no/such/file");
	assert_int_equal(number(noted(8, "openat"), 4 + 14 + 8, 4), -1);
	assert_int_equal(number(noted(8, "openat"), 4 + 14 + 12, 4), ENOENT);
	assert_int_equal(number(noted(9, "close"), 8, 4), EBADF);
	assert_int_equal(notes->n, 10);
}

static void bad_pointers_are_the_kernels_to_find(void **state)
{
	char *volatile bad = (char *)8;
	char *argv[] = { (char *)"x", NULL };
	int e[4];

	record("open", "openat", "read", "exec", "exec_failed", NULL);
	e[0] = open(bad, O_RDONLY) < 0 ? errno : 0;
	e[1] = openat(AT_FDCWD, bad, O_RDONLY | O_DIRECTORY | O_CREAT, 0600) < 0 ? errno : 0;
	e[2] = read(0, bad, 0) < 0 ? errno : 0;
	e[3] = execve(bad, argv, argv + 1) < 0 ? errno : 0;
	record_nothing();
	assert_int_equal(e[0], EFAULT);
	assert_true(e[1] == EFAULT || e[1] == EINVAL);
	assert_int_equal(e[3], EFAULT);
	assert_int_equal(notes->n, 5);
	assert_int_equal(number(noted(4, "exec_failed"), 1, 4), EFAULT);
}

static void memory_is_recorded(void **state)
{
	void *p[8] = { 0 }, *q = NULL;
	int r;

	record("malloc", "calloc", "realloc", "free", "aligned_alloc", "posix_memalign", "memalign",
		NULL);
	errno = 77;
	p[0] = malloc(100);
	p[1] = calloc(3, 5);
	q = realloc(p[0], 5000);
	p[2] = reallocarray(NULL, 7, 8);
	p[3] = aligned_alloc(64, 128);
	r = posix_memalign(&p[4], 4096, 10);
	p[5] = memalign(32, 10);
	free(q);
	for (int i = 1; i < 6; i++)
		free(p[i]);
	free(NULL);
	r = r == 0 && errno == 77;
	record_nothing();
	assert_true(r);
	assert_true((uintptr_t)p[3] % 64 == 0 && (uintptr_t)p[4] % 4096 == 0);

	assert_int_equal(number(noted(0, "malloc"), 0, 8), 100);
	assert_int_equal(number(noted(0, "malloc"), 8, 8), (uintptr_t)p[0]);
	assert_int_equal(number(noted(1, "calloc"), 8, 8), 5);
	assert_int_equal(number(noted(2, "realloc"), 0, 8), (uintptr_t)p[0]);
	assert_int_equal(number(noted(2, "realloc"), 16, 8), (uintptr_t)q);
	assert_int_equal(number(noted(3, "realloc"), 8, 8), 56); /* of reallocarray() */
	noted(4, "aligned_alloc");
	assert_int_equal(number(noted(5, "posix_memalign"), 16, 8), (uintptr_t)p[4]);
	noted(6, "memalign");
	assert_int_equal(number(noted(7, "free"), 0, 8), (uintptr_t)q);
	assert_int_equal(number(noted(13, "free"), 0, 8), 0);
	assert_int_equal(notes->n, 14);
}

static void failed_allocations_stay_failed(void **state)
{
	volatile size_t huge = SIZE_MAX / 2;
	int e[3];
	void *p = e, *q[2];

	record("malloc", "calloc", "posix_memalign", NULL);
	errno = 0;
	q[0] = malloc(huge);
	e[0] = errno;
	errno = 0;
	q[1] = calloc(huge, 4);
	e[1] = errno;
	e[2] = posix_memalign(&p, 3, 1);
	record_nothing();
	assert_true(!q[0] && !q[1]); /* NOLINT: nothing leaks */
	assert_int_equal(e[0], ENOMEM);
	assert_int_equal(e[1], ENOMEM);
	assert_int_equal(e[2], EINVAL);
	assert_ptr_equal(p, e);
	assert_int_equal(notes->n, 3);
}

/* In a function of its own: vfork may not return from the frame that goes on. */
static __attribute__((noinline)) pid_t vfork_and_be_busy(void)
{
	static char *const argv[] = { (char *)"sh", (char *)"-c", (char *)"exit 5", NULL };
	pid_t pid = vfork();

	if (pid == 0) {
		/* All that a child should not do, and some programs do. NOLINTBEGIN */
		close(-1);
		free(malloc(10));
		close(open("/dev/null", O_RDONLY));
		execve("/no/such/program", argv, argv + 3);
		execve("/bin/sh", argv, argv + 3);
		_exit(9);
		/* NOLINTEND */
	}
	return pid;
}

static void vfork_child_is_silent(void **state)
{
	pid_t pid;

	record("vfork", "open", "close", "malloc", "free", "exec", "exec_failed", "_exit", "fork",
		NULL);
	for (int i = 0; i < 3; i++) {
		pid = vfork_and_be_busy();
		close(-1); /* the parent's, recorded again */
		assert_int_equal(status_of(pid), 5);
	}
	record_nothing();
	for (unsigned i = 0; i < 6; i += 2) {
		assert_int_equal(noted(i, "vfork")->pid, getpid());
		assert_int_equal(noted(i + 1, "close")->pid, getpid());
	}
	assert_int_equal(notes->n, 6);
}

static void parent_tells_what_vfork_child_executed(void **state)
{
	pid_t pid;

	record("vfork_exec", "close", NULL);
	pid = vfork_and_be_busy();
	close(-1);
	close(-1);
	record_nothing();
	assert_int_equal(status_of(pid), 5);
	assert_int_equal(notes->n, 3);
	assert_int_equal(number(noted(0, "vfork_exec"), 0, 4), pid);
	assert_string_equal((const char *)noted(0, "vfork_exec")->payload + 4, "/bin/sh");
}

static void fork_child_is_recorded_even_after_vfork(void **state)
{
	static const char *const of_child_names[] = { "fork", "close", "_exit", "" };
	pid_t pid;

	record(NULL);
	assert_int_equal(
		status_of(vfork_and_be_busy()), 5); /* nothing recorded: nothing compared */
	record("fork", "close", "_exit", NULL);
	pid = fork();
	if (pid == 0) {
		close(-1);
		_exit(6);
	}
	assert_int_equal(status_of(pid), 6);
	record_nothing();
	assert_int_equal(notes->n, 4);
	for (unsigned i = 0, of_child = 0; i < 4; i++) {
		const struct note *n = &notes->note[i];

		if (n->pid != pid) {
			assert_string_equal(n->name, "fork");
			assert_int_equal(number(n, 0, 4), pid);
			continue;
		}
		assert_string_equal(n->name, of_child_names[of_child++]);
	}
}

static void exec_passes_all_arguments(void **state)
{
	static const char script[] = "test \"$0 $1 $2 $VALUE\" = 'zero one two set'";
	char *env[] = { (char *)"VALUE=set", NULL };
	const char *const path = "/bin/sh";
	pid_t pid;

	setenv("VALUE", "set", 1);
	record("exec", "exec_failed", NULL);
	for (int kind = 0; kind < 3; kind++) {
		pid = fork();
		if (pid == 0) {
			if (kind == 0)
				execl(path, "sh", "-c", script, "zero", "one", "two", NULL);
			if (kind == 1)
				execlp("sh", "sh", "-c", script, "zero", "one", "two", NULL);
			if (kind == 2)
				execle(path, "sh", "-c", script, "zero", "one", "two", NULL, env);
			_exit(99);
		}
		assert_int_equal(status_of(pid), 0);
	}
	record_nothing();
	assert_int_equal(notes->n, 3);
	assert_string_equal((const char *)noted(0, "exec")->payload, "/bin/sh");
	assert_string_equal((const char *)noted(1, "exec")->payload, "sh");
}

static void spawned_programs_are_recorded(void **state)
{
	char *argv[] = { (char *)"sh", (char *)"-c", (char *)"exit 4", NULL };
	pid_t pid, none = 1;
	int missing;

	record("posix_spawn", "close", "exec", NULL);
	assert_int_equal(posix_spawnp(&pid, "sh", NULL, NULL, argv, argv + 3), 0);
	missing = posix_spawn(&none, "/no/such", NULL, NULL, argv, argv + 3);
	assert_int_equal(posix_spawn(NULL, "/bin/true", NULL, NULL, argv, argv + 3), 0);
	record_nothing();
	assert_int_equal(status_of(pid), 4);
	wait(NULL);
	assert_int_equal(missing, ENOENT);
	assert_int_equal(none, 1);
	assert_int_equal(notes->n, 3);
	assert_int_equal(number(noted(0, "posix_spawn"), 3, 4), pid);
	assert_int_equal(number(noted(1, "posix_spawn"), 9 + 4, 4), ENOENT);
}

static void exit_tells_its_status_once(void **state)
{
	for (int kind = 0; kind < 2; kind++) {
		pid_t pid;

		record("exit", "_exit", NULL);
		pid = fork();
		if (pid == 0) {
			if (kind == 0)
				exit(7);
			_Exit(7);
		}
		assert_int_equal(status_of(pid), 7);
		record_nothing();
		assert_int_equal(notes->n, 1);
		assert_int_equal(number(noted(0, kind == 0 ? "exit" : "_exit"), 0, 4), 7);
	}
}

static int pipe_fd[2];

static void *reader(void *arg)
{
	char b;

	return (void *)(intptr_t)read(pipe_fd[0], &b, 1);
}

static void blocked_calls_can_be_cancelled(void **state)
{
	pthread_t thread;
	void *result;

	for (int recorded = 0; recorded < 2; recorded++) {
		assert_int_equal(pipe(pipe_fd), 0);
		record(recorded ? "read" : NULL, NULL);
		assert_int_equal(pthread_create(&thread, NULL, reader, NULL), 0);
		assert_int_equal(pthread_cancel(thread), 0);
		assert_int_equal(pthread_join(thread, &result), 0);
		record_nothing();
		assert_ptr_equal(result, PTHREAD_CANCELED);
		close(pipe_fd[0]);
		close(pipe_fd[1]);
	}
}

static void on_alarm(int sig)
{
	(void)!write(pipe_fd[1], "x", 1);
}

static void interrupted_calls_say_so(void **state)
{
	struct sigaction sa = { .sa_handler = on_alarm };
	int fds[2], e;
	ssize_t n;
	char b;

	assert_int_equal(pipe(pipe_fd), 0);
	assert_int_equal(pipe(fds), 0);
	sigaction(SIGALRM, &sa, NULL);
	record("read", "write", NULL);
	ualarm(10000, 0);
	n = read(fds[0], &b, 1);
	e = errno;
	record_nothing();
	assert_int_equal(n, -1);
	assert_int_equal(e, EINTR);
	noted(0, "write"); /* of the handler, inside the read */
	assert_int_equal(number(noted(1, "read"), 20, 4), EINTR);
	signal(SIGALRM, SIG_DFL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_are_recorded_and_errno_is_exact),
		cmocka_unit_test(bad_pointers_are_the_kernels_to_find),
		cmocka_unit_test(memory_is_recorded),
		cmocka_unit_test(failed_allocations_stay_failed),
		cmocka_unit_test(vfork_child_is_silent),
		cmocka_unit_test(parent_tells_what_vfork_child_executed),
		cmocka_unit_test(fork_child_is_recorded_even_after_vfork),
		cmocka_unit_test(exec_passes_all_arguments),
		cmocka_unit_test(spawned_programs_are_recorded),
		cmocka_unit_test(exit_tells_its_status_once),
		cmocka_unit_test(blocked_calls_can_be_cancelled),
		cmocka_unit_test(interrupted_calls_say_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
