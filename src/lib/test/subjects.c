/* SPDX-License-Identifier: MIT */
/* Programs under test, started and watched: see subjects.h. */

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "lib/test/subjects.h"

#define WATCHDOG_MS 20000

extern char **environ;

const char *const host_names[] = { "linked", "static", "dlopened", "mixed", "many" };
static const char *const programs[] = { "subject", "subject-static", NULL, "subject-mixed",
	"subject-many" };

int64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

const char *path_of(const char *name)
{
	static char path[4][512];
	static int turn;
	char *p = path[turn++ % 4];

	snprintf(p, sizeof(path[0]), "%s/%s", getenv("SUBJECT_DIR"), name);
	return p;
}

bool emulated(void)
{
	return *getenv("SUBJECT_WRAPPER");
}

bool host_missing(enum host host)
{
	return host == STATIC && access(path_of("subject-static"), X_OK) < 0;
}

struct subject subject_spawn(char *const argv[])
{
	int in[2], out[2];
	struct subject s;
	posix_spawn_file_actions_t actions;

	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, in[0], 0);
	posix_spawn_file_actions_adddup2(&actions, out[1], 1);
	assert_int_equal(posix_spawnp(&s.pid, argv[0], &actions, NULL, argv, environ), 0);
	posix_spawn_file_actions_destroy(&actions);
	close(in[0]);
	close(out[1]);
	s.in = in[1];
	s.out = out[0];
	return s;
}

struct subject subject_start(struct fake *f, enum host host, const char *name, const char *arg)
{
	char *argv[10] = { 0 }, *wrapper = getenv("SUBJECT_WRAPPER");
	static char words[256];
	int n = 0;

	setenv("VARVE_RUNDIR", f->dir, 1);
	snprintf(words, sizeof(words), "%s", wrapper);
	for (char *w = strtok(words, " "); w && n < 4; w = strtok(NULL, " "))
		argv[n++] = w;
	if (host == DLOPENED) {
		argv[n++] = (char *)path_of("subject-host");
		argv[n++] = (char *)path_of("libsubject-module.so");
	} else {
		argv[n++] = (char *)path_of(programs[host]);
	}
	argv[n++] = (char *)name;
	if (arg)
		argv[n++] = (char *)arg;
	return subject_spawn(argv);
}

void subject_go_on(struct subject *s)
{
	assert_int_equal(write(s->in, "\n", 1), 1);
}

char *subject_hear(struct subject *s)
{
	static char line[256];
	size_t n = 0;

	while (n < sizeof(line) - 1) {
		struct pollfd p = { .fd = s->out, .events = POLLIN };

		if (poll(&p, 1, WATCHDOG_MS) != 1)
			fail_msg("the subject says nothing");
		if (read(s->out, &line[n], 1) != 1 || line[n] == '\n')
			break;
		n++;
	}
	line[n] = 0;
	return line;
}

int subject_end(struct subject *s)
{
	int status, waited = 0;

	close(s->in);
	while (waitpid(s->pid, &status, WNOHANG) == 0) {
		usleep(1000);
		if (++waited > WATCHDOG_MS) {
			kill(s->pid, SIGKILL);
			fail_msg("the subject hangs");
		}
	}
	close(s->out);
	return status;
}

void subject_run(struct fake *f, enum host host, const char *name, const char *arg, pid_t *ret_pid)
{
	struct subject s = subject_start(f, host, name, arg);

	if (ret_pid)
		*ret_pid = s.pid;
	while (*subject_hear(&s))
		continue;
	assert_int_equal(subject_end(&s), 0);
}

char *without_tid(char *text, pid_t tid)
{
	char prefix[32], *to = text;
	size_t n = (size_t)snprintf(prefix, sizeof(prefix), "%d ", tid);

	for (char *line = text; *line;) {
		char *next = strchr(line, '\n') + 1;

		if (strncmp(line, prefix, n) != 0)
			fail_msg("not of thread %d: %.60s", tid, line);
		memmove(to, line + n, (size_t)(next - line) - n);
		to += (size_t)(next - line) - n;
		line = next;
	}
	*to = 0;
	return text;
}

uint32_t count_in(const char *text, const char *with)
{
	uint32_t n = 0;

	for (const char *p = text; (p = strstr(p, with)); p += strlen(with))
		n++;
	return n;
}

int subjects_init(void)
{
	if (!getenv("SUBJECT_DIR")) {
		fprintf(stderr, "SUBJECT_DIR must name the folder of the subject programs\n");
		return -1;
	}
	setenv("SUBJECT_WRAPPER", "", 0);
	signal(SIGPIPE, SIG_IGN);
	/* The machine may be busy with other tests. */
	setenv("VARVE_ATTACH_MS", "5000", 1);
	/* The subjects fork with threads about, which the search for leaks does not like. */
	setenv("ASAN_OPTIONS", "detect_leaks=0:detect_stack_use_after_return=0", 1);
	return 0;
}
