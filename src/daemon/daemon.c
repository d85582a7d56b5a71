/* SPDX-License-Identifier: MIT */
/* varved itself: its parts in their order, the loop, a clean end. See daemon.h. */

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/log.h"
#include "daemon/control/ctl.h"
#include "daemon/control/verbs.h"
#include "daemon/daemon.h"
#include "daemon/memory/grant.h"
#include "daemon/memory/retire.h"
#include "daemon/memory/tick.h"
#include "daemon/notify.h"
#include "daemon/programs/app.h"
#include "daemon/programs/burial.h"
#include "daemon/programs/process.h"
#include "daemon/session.h"
#include "daemon/snapshot/snapshot.h"

#define LOOP_NICE (-10)

#define MINIMUM_SUBS 2u /* small ones, per online CPU ... */
#define MINIMUM_LOW  4u /* ... but at least, ... */
#define MINIMUM_HIGH 8u /* ... and at most */

uint64_t daemon_minimum(const struct daemon *d)
{
	uint32_t n = MINIMUM_SUBS * d->n_cpus_online;

	n = n < MINIMUM_LOW ? MINIMUM_LOW : n > MINIMUM_HIGH ? MINIMUM_HIGH : n;
	return (uint64_t)n * GRANT_SMALL;
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

static int daemon_run(struct daemon *d, daemon_ready_fn *ready, void *arg)
{
	uv_signal_t term, interrupt;
	int r;

	raise_priority(); /* first: threads inherit it */
	r = parts_init(d);
	if (r < 0) {
		log_error("cannot start: %s", strerror(-r));
	} else {
		uv_signal_init(d->loop, &term);
		uv_signal_init(d->loop, &interrupt);
		uv_signal_start(&term, stop_now, SIGTERM);
		uv_signal_start(&interrupt, stop_now, SIGINT);
		rundir_listening(&d->rundir);
		ready(arg);
		notify_state("READY=1");
		uv_run(d->loop, UV_RUN_DEFAULT);
		notify_state("STOPPING=1");
		uv_close((uv_handle_t *)&term, NULL);
		uv_close((uv_handle_t *)&interrupt, NULL);
	}
	parts_fini(d);
	return r < 0 ? 1 : 0;
}

int daemon_main(const struct daemon_options *o, daemon_ready_fn *ready, void *arg)
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
	list_init(&d.snapshots);
	accounts_init(&d.accounts);
	d.n_cpus_online = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
	d.n_streams = cpus_possible();
	d.uid_share = o->uid_share;
	d.started_at = clock_now(&d.clock);
	uv_loop_init(&loop);
	d.loop = &loop;
	code = daemon_run(&d, ready, arg);
	uv_loop_close(&loop);
	rundir_fini(&d.rundir);
	return code;
}
