/* SPDX-License-Identifier: MIT */
/*
 * varved: options, the parts in their order, the loop, a clean end.
 *
 * Without --foreground the parent waits until the daemon listens, so that whatever comes after
 * "varved" in a script finds it there.
 */

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"
#include "daemon/app.h"
#include "daemon/burial.h"
#include "daemon/ctl.h"
#include "daemon/daemon.h"
#include "daemon/grant.h"
#include "daemon/notify.h"
#include "daemon/process.h"
#include "daemon/retire.h"
#include "daemon/session.h"
#include "daemon/snapshot.h"
#include "daemon/tick.h"
#include "daemon/verbs.h"

#define LOOP_NICE (-10)

struct options {
	bool foreground;
	char *rundir; /* owned */
	enum trace_clock clock;
};

static void usage(FILE *to)
{
	fputs("Usage: varved [--foreground] [--rundir DIR] [--clock NAME]\n"
	      "The flight recorder's daemon: programs with varve events record through it.\n\n"
	      "  --foreground   do not go to the background; stop with SIGTERM or ^C\n"
	      "  --rundir DIR   run directory (default: /run/varve if it is writable,\n"
	      "                 else $XDG_RUNTIME_DIR/varve); programs find it by VARVE_RUNDIR\n"
	      "  --clock NAME   tsc, cntvct or monotonic (default: the best there is)\n"
	      "  --version      print the version\n"
	      "  --help         print this\n",
		to);
}

/* Returns -1 to go on, else the exit code. */
static int options_parse(struct options *o, int argc, char **argv)
{
	static const struct option longs[] = {
		{ "foreground", no_argument, NULL, 'f' },
		{ "rundir", required_argument, NULL, 'r' },
		{ "clock", required_argument, NULL, 'c' },
		{ "version", no_argument, NULL, 'V' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	const char *rundir = NULL;
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

static void tell_ready(int fd)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (write(fd, "r", 1) < 0)
		return;
	close(fd);
	/* From here on nobody looks at our errors but a journal. */
	if (null >= 0) {
		dup2(null, STDERR_FILENO);
		if (null > STDERR_FILENO)
			close(null);
	}
}

/* --- the machine ---------------------------------------------------------------------------------- */

static uint32_t cpus_possible(void)
{
	uint32_t n = (uint32_t)sysconf(_SC_NPROCESSORS_CONF), first, last;
	FILE *f = fopen("/sys/devices/system/cpu/possible", "re");

	if (f && fscanf(f, "%u-%u", &first, &last) == 2 && last + 1 > n)
		n = last + 1;
	if (f)
		fclose(f);
	return n < 4 ? 4 : n > POOL_STREAMS_MAX ? POOL_STREAMS_MAX : n;
}

/* Two fds per process that records. */
static void raise_fd_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

/*
 * A program that starts waits for the loop, 50 ms at most, also where all CPUs are busy; what the loop
 * does is short. Where we may not, we do not.
 */
static void raise_priority(void)
{
	setpriority(PRIO_PROCESS, 0, LOOP_NICE);
}

/* --- the daemon ----------------------------------------------------------------------------------- */

static int parts_init(struct daemon *d)
{
	int r = 0;

	d->registry = registry_new(atomic_load(&d->rundir.control->next));
	if (!d->registry)
		r = -ENOMEM;
	if (r == 0)
		r = burial_init(d);
	if (r == 0)
		r = grant_init(d);
	if (r == 0)
		r = retire_init(d);
	if (r == 0)
		r = tick_init(d);
	if (r == 0)
		r = ctl_new(&d->ctl, d->loop, d->rundir.ctl_fd, verbs_request, d);
	if (r == 0)
		r = app_init(d);
	return r;
}

/* Workers first: what they hold is taken down after them. */
static void parts_fini(struct daemon *d)
{
	struct process *p;

	app_fini(d);
	ctl_free(d->ctl);
	d->ctl = NULL;
	snapshots_cancel(d);
	tick_fini(d);
	burial_fini(d);
	list_for_each(p, &d->processes, struct process, link)
		burial_unwatch(p);
	uv_run(d->loop, UV_RUN_DEFAULT); /* until no worker is left */
	list_for_each(p, &d->processes, struct process, link)
		process_free(p);
	sessions_free(d);
	grant_fini(d);
	retire_fini(d);
	registry_free(d->registry);
	accounts_fini(&d->accounts);
}

static void stop_now(uv_signal_t *signal, int number)
{
	uv_stop(signal->loop);
}

static int daemon_run(struct daemon *d, int ready_fd)
{
	uv_signal_t term, interrupt;
	int r = parts_init(d);

	if (r < 0) {
		log_error("cannot start: %s", strerror(-r));
	} else {
		raise_priority();
		uv_signal_init(d->loop, &term);
		uv_signal_init(d->loop, &interrupt);
		uv_signal_start(&term, stop_now, SIGTERM);
		uv_signal_start(&interrupt, stop_now, SIGINT);
		rundir_listening(&d->rundir);
		if (ready_fd >= 0)
			tell_ready(ready_fd);
		notify_state("READY=1");
		uv_run(d->loop, UV_RUN_DEFAULT);
		notify_state("STOPPING=1");
		uv_close((uv_handle_t *)&term, NULL);
		uv_close((uv_handle_t *)&interrupt, NULL);
	}
	parts_fini(d);
	return r < 0 ? 1 : 0;
}

/* From the clock to the end. Returns the exit code. */
static int daemon_main(const struct options *o, int ready_fd)
{
	struct daemon d = { 0 };
	char *error = NULL;
	uv_loop_t loop;
	int code;

	signal(SIGPIPE, SIG_IGN);
	raise_fd_limit();
	if (clock_init(&d.clock, o->clock) < 0) {
		log_error("this machine has no clock '%s' that is the same on all CPUs",
			clock_name(o->clock));
		return 1;
	}
	if (rundir_init(&d.rundir, o->rundir, d.clock.kind, &error) < 0) {
		log_error("%s", error ? error : "out of memory");
		free(error);
		return 1;
	}
	list_init(&d.sessions);
	list_init(&d.processes);
	accounts_init(&d.accounts);
	d.n_cpus_online = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
	d.n_streams = cpus_possible();
	d.started_at = clock_now(&d.clock);
	uv_loop_init(&loop);
	d.loop = &loop;
	code = daemon_run(&d, ready_fd);
	uv_loop_close(&loop);
	rundir_fini(&d.rundir);
	return code;
}

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
	struct options o = { 0 };
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
	if (o.rundir && (o.foreground || ready_fd >= 0))
		code = daemon_main(&o, ready_fd);
	free(o.rundir);
	return code;
}
