/* SPDX-License-Identifier: MIT */
/*
 * varved: options, and the way to the background. What it then does is in daemon.c.
 *
 * Without --foreground the parent waits until the daemon listens, so that whatever comes after
 * "varved" in a script finds it there.
 */

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"
#include "daemon/daemon.h"

struct options {
	bool foreground;
	char *rundir; /* owned */
	enum trace_clock clock;
	uint32_t uid_share;
};

static void usage(FILE *to)
{
	fputs("Usage: varved [--foreground] [--rundir DIR] [--clock NAME] [--uid-share PCT]\n"
	      "The flight recorder's daemon: programs with varve events record through it.\n\n"
	      "  --foreground     do not go to the background; stop with SIGTERM or ^C\n"
	      "  --rundir DIR     run directory (default: /run/varve if it is writable,\n"
	      "                   else $XDG_RUNTIME_DIR/varve); programs find it by VARVE_RUNDIR\n"
	      "  --clock NAME     tsc, cntvct or monotonic (default: the best there is)\n"
	      "  --uid-share PCT  at most PCT per cent of a budget for one user (default: 100)\n"
	      "  --version        print the version\n"
	      "  --help           print this\n",
		to);
}

/* Returns -1 to go on, else the exit code. */
static int options_parse(struct options *o, int argc, char **argv)
{
	static const struct option longs[] = {
		{ "foreground", no_argument, NULL, 'f' },
		{ "rundir", required_argument, NULL, 'r' },
		{ "clock", required_argument, NULL, 'c' },
		{ "uid-share", required_argument, NULL, 'u' },
		{ "version", no_argument, NULL, 'V' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	const char *rundir = NULL;
	char *end;
	int opt;

	opterr = 0;
	while ((opt = getopt_long(argc, argv, ":fh", longs, NULL)) != -1) {
		switch (opt) {
		case 'f':
			o->foreground = true;
			break;
		case 'r':
			rundir = optarg;
			break;
		case 'c':
			if (clock_parse(optarg, &o->clock) < 0) {
				log_error("no clock '%s': tsc, cntvct or monotonic", optarg);
				return 2;
			}
			break;
		case 'u':
			o->uid_share = (uint32_t)strtoul(optarg, &end, 10);
			if (*end || o->uid_share < 1 || o->uid_share > 100) {
				log_error(
					"--uid-share takes 1 to 100 (per cent), not '%s'", optarg);
				return 2;
			}
			break;
		case 'V':
			printf("varved %s\n", VARVE_VERSION);
			return 0;
		case 'h':
			usage(stdout);
			return 0;
		case ':':
			log_error("option '%s' needs a value ('varved --help')", argv[optind - 1]);
			return 2;
		default:
			log_error("unknown option '%s' ('varved --help')", argv[optind - 1]);
			return 2;
		}
	}
	if (optind < argc) {
		log_error("unexpected argument '%s' ('varved --help')", argv[optind]);
		return 2;
	}
	o->rundir = rundir ? strdup(rundir) : rundir_default();
	return o->rundir ? -1 : 1;
}

/* --- the background ------------------------------------------------------------------------------- */

/* In the parent: waits for the child's word. Returns the exit code. */
static int wait_until_ready(int fd, pid_t child)
{
	char ready;
	int status;

	if (read(fd, &ready, 1) == 1)
		return 0;
	waitpid(child, &status, 0);
	return WIFEXITED(status) && WEXITSTATUS(status) ? WEXITSTATUS(status) : 1;
}

/* Returns in the child, with the fd that tells the parent; -1 in case of failure. */
static int background(void)
{
	int pipe_fds[2], null;
	pid_t child;

	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return -1;
	child = fork();
	if (child < 0)
		return -1;
	if (child > 0) {
		close(pipe_fds[1]);
		exit(wait_until_ready(pipe_fds[0], child));
	}
	close(pipe_fds[0]);
	setsid();
	if (chdir("/") < 0)
		return -1;
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null >= 0) {
		dup2(null, STDIN_FILENO);
		dup2(null, STDOUT_FILENO);
		if (null > STDERR_FILENO)
			close(null);
	}
	return pipe_fds[1];
}

/* In the child: programs may come. *arg is the fd; -1 in the foreground. */
static void tell_ready(void *arg)
{
	int null, fd = *(int *)arg;

	if (fd < 0 || write(fd, "r", 1) < 0)
		return;
	close(fd);
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	/* From here on nobody looks at our errors but a journal. */
	if (null >= 0) {
		dup2(null, STDERR_FILENO);
		if (null > STDERR_FILENO)
			close(null);
	}
}

/* --- all ------------------------------------------------------------------------------------------ */

/* A relative path must outlive the chdir. Returns it made absolute; takes path over. */
static char *absolute(char *path)
{
	char *cwd, *whole;

	if (path[0] == '/')
		return path;
	cwd = getcwd(NULL, 0);
	whole = cwd ? text_format("%s/%s", cwd, path) : NULL;
	free(cwd);
	free(path);
	return whole;
}

int main(int argc, char **argv)
{
	struct options o = { .uid_share = 100 };
	struct daemon_options d;
	int ready_fd = -1, code;

	log_init("varved");
	code = options_parse(&o, argc, argv);
	if (code >= 0)
		return code;
	code = 1;
	o.rundir = absolute(o.rundir);
	if (o.rundir && !o.foreground) {
		ready_fd = background();
		if (ready_fd < 0)
			log_error("cannot go to the background: %s", strerror(errno));
	}
	d = (struct daemon_options){ o.rundir, o.clock, o.uid_share };
	if (o.rundir && (o.foreground || ready_fd >= 0))
		code = daemon_main(&d, tell_ready, &ready_fd);
	free(o.rundir);
	return code;
}
