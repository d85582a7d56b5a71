/* SPDX-License-Identifier: MIT */
#ifndef VARVE_DAEMON_DAEMON_H
#define VARVE_DAEMON_DAEMON_H

/*
 * varved: one loop thread that owns everything here, workers (uv_queue_work) that copy from pools
 * and stores they hold references of, and a thread that sleeps on the control file's futex.
 *
 *   session.c  what is recorded, and how much memory it may have
 *   programs/  app.c: they say hello; registry.c: with which events; process.c: who they are and what
 *              they did; burial.c: their death; store.c: what is left of them; account.c: what a uid
 *              may make us hold
 *   memory/    tick.c: when to look; pool-view.c: at what programs did with their pools (pool.c);
 *              need.c: what each needs of the budget; balance.c: who gets how much; grant.c: moves it;
 *              room.c: for who cannot wait for a tick; retire.c: ends what silent programs hold
 *   snapshot/  the recording, out as frames
 *   control/   ctl.c: requests of the command line; verbs.c: obeyed; describe.c: status and lists
 *   rundir.c, clock.c, notify.c  the directory of sockets and control file; time; systemd
 */

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>
#include "base/list.h"
#include "daemon/clock.h"
#include "daemon/programs/account.h"
#include "daemon/programs/registry.h"
#include "daemon/rundir.h"

struct app;
struct ctl;
struct tick;
struct burial;
struct grant;
struct retire;

struct daemon {
	uv_loop_t *loop;
	struct rundir rundir;
	struct clock_state clock;
	struct registry *registry;
	struct accounts accounts;
	struct list sessions;  /* struct session.link */
	struct list processes; /* struct process.link, alive and dead */
	struct list snapshots; /* struct snapshot.link: sent or not yet */
	uint32_t n_snapshots;
	struct session *channels[POOL_N_CHANNELS]; /* who has each; draining ones too */
	uint64_t next_process;
	uint32_t next_session;
	uint32_t n_cpus_online;
	uint32_t uid_share;    /* per cent of a budget that one uid's processes may have in all */
	uint32_t n_streams;    /* of the pools made from now on: possible CPUs, at least 4 */
	uint64_t started_at;   /* trace clock */
	struct app *app;       /* owned */
	struct ctl *ctl;       /* owned; ctl.h: ctl_new(), ctl_free() */
	struct tick *tick;     /* owned */
	struct burial *burial; /* owned */
	struct grant *grant;   /* owned */
	struct retire *retire; /* owned */
};

/* Bytes promised to each process at attach, per active session. */
uint64_t daemon_minimum(const struct daemon *d);

/* Is varved, from taking the run directory to the end that SIGTERM or SIGINT asks for. ready is
 * called once programs may come. Returns the exit code; what went wrong has been logged. */
struct daemon_options {
	const char *rundir;
	enum trace_clock clock; /* 0: the best there is */
	uint32_t uid_share;	/* per cent, 1 to 100 */
};
typedef void daemon_ready_fn(void *arg);
int daemon_main(const struct daemon_options *o, daemon_ready_fn *ready, void *arg);

#endif
