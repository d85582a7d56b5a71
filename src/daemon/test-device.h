/* SPDX-License-Identifier: MIT */
#ifndef VARVE_DAEMON_TEST_DEVICE_H
#define VARVE_DAEMON_TEST_DEVICE_H

/*
 * For tests: a daemon without sockets' ends and without a timer, whose ticks the test makes; and
 * processes that are children which only wait, while the test itself writes into their pools.
 */

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "daemon/daemon.h"
#include "daemon/memory/grant.h"
#include "daemon/memory/retire.h"
#include "daemon/programs/burial.h"
#include "daemon/programs/process.h"
#include "daemon/programs/store.h"
#include "daemon/session.h"
#include "varve/abi.h"

struct device {
	struct daemon d;
	uv_loop_t loop;
	char dir[64];
};

struct program {
	struct process *process;
	pid_t child;
	void *map;
	uint64_t span;
	struct ring_writer writer;
	uint32_t event; /* id of one with a u64 */
};

static inline struct device *device_new(void)
{
	struct device *v = calloc(1, sizeof(*v));
	struct daemon *d = &v->d;
	char *error;

	assert_non_null(v);
	strcpy(v->dir, "/tmp/varve-test-XXXXXX");
	assert_non_null(mkdtemp(v->dir));
	assert_int_equal(clock_init(&d->clock, 0), 0);
	assert_int_equal(rundir_init(&d->rundir, v->dir, d->clock.kind, &error), 0);
	uv_loop_init(&v->loop);
	d->loop = &v->loop;
	list_init(&d->sessions);
	list_init(&d->processes);
	list_init(&d->snapshots);
	accounts_init(&d->accounts);
	d->uid_share = 100;
	d->n_cpus_online = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
	d->n_streams = (uint32_t)sysconf(_SC_NPROCESSORS_CONF);
	d->n_streams = d->n_streams < 4 ? 4 : d->n_streams;
	d->registry = registry_new(atomic_load(&d->rundir.control->next));
	assert_int_equal(burial_init(d), 0);
	assert_int_equal(grant_init(d), 0);
	assert_int_equal(retire_init(d), 0);
	return v;
}

static inline void device_free(struct device *v)
{
	struct daemon *d = &v->d;
	struct process *p;
	char path[128];

	burial_fini(d);
	list_for_each(p, &d->processes, struct process, link)
		burial_unwatch(p);
	uv_run(d->loop, UV_RUN_DEFAULT);
	list_for_each(p, &d->processes, struct process, link)
		process_free(p);
	sessions_free(d);
	grant_fini(d);
	retire_fini(d);
	registry_free(d->registry);
	accounts_fini(&d->accounts);
	rundir_fini(&d->rundir);
	assert_int_equal(uv_loop_close(&v->loop), 0);
	snprintf(path, sizeof(path), "%s/control", v->dir);
	unlink(path);
	snprintf(path, sizeof(path), "%s/lock", v->dir);
	unlink(path);
	assert_int_equal(rmdir(v->dir), 0);
	free(v);
}

/* A layout with one u64, as the parser makes them. */
static inline uint32_t device_event(struct device *v, const char *provider, const char *name)
{
	struct {
		struct wire_event e;
		struct wire_field f;
	} *b = calloc(1, sizeof(*b));
	const struct registry_event *e;

	assert_non_null(b);
	b->e = (struct wire_event){ VARVE_INFO, 1, provider, name, &b->f };
	b->f = (struct wire_field){ .type = VARVE_T_U64, .name = "n" };
	e = registry_find(v->d.registry, &b->e);
	if (e) {
		free(b);
		return e->id;
	}
	assert_int_equal(registry_add(v->d.registry, &b->e, &e), 0);
	atomic_store(&v->d.rundir.words[e->id], session_word(&v->d, e->layout));
	return e->id;
}

static inline struct session *device_session(
	struct device *v, const char *name, uint64_t budget, uint64_t window_ns)
{
	struct session_options o = { .name = name, .budget = budget, .window_ns = window_ns };
	struct session *s = NULL;
	char *error = NULL;

	if (session_create(&v->d, &o, &s, &error) < 0)
		fail_msg("session_create: %s", error);
	return s;
}

/* A child that waits, and the test's own hands in its pool. */
static inline struct program program_new(struct device *v, uid_t uid, enum ring_mode mode)
{
	struct wire_hello hello = { .room = UINT64_MAX, .name = "program" };
	struct program g = { .event = device_event(v, "test", "n") };
	struct process_identity id = { .uid = uid };

	if (ring_mode_choose(v->d.clock.kind) == RING_LOCK)
		mode = RING_LOCK; /* all that this machine has */
	hello.mode = mode;
	g.child = fork();
	if (g.child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nobody */
		for (;;)
			pause();
	}
	id.pid = g.child;
	id.pidfd = (int)syscall(SYS_pidfd_open, g.child, 0);
	assert_true(id.pidfd >= 0);
	assert_int_equal(process_new(&v->d, &id, &hello, "", 0, &g.process), 0);
	g.span = geometry_span(&g.process->pool->ring.geometry);
	g.map = mmap(NULL, g.span, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
		g.process->pool->ring.fd, 0);
	assert_true(g.map != MAP_FAILED);
	assert_int_equal(
		ring_writer_init(&g.writer, g.map, g.span, NULL, mode, v->d.clock.kind), 0);
	return g;
}

/* Emits n records of 4 + 8 bytes of body on the session's channel. */
static inline void program_emit(struct program *g, const struct session *s, uint32_t n)
{
	struct {
		uint32_t vtid;
		uint64_t n;
		uint64_t slack;
	} __attribute__((packed)) body = { .vtid = 1 };

	for (; n > 0; n--, body.n++)
		ring_emit(&g->writer, s->channel, g->event, &body, 12);
}

/* Ends the child; the pool's fate is up to the loop. */
static inline void program_kill(struct program *g)
{
	munmap(g->map, g->span);
	kill(g->child, SIGKILL);
	waitpid(g->child, NULL, 0);
}

/* A tick, and what workers and burials have to do, until they are done. */
static inline struct grant_result device_tick(struct device *v)
{
	struct grant_result r;

	grant_tick(&v->d, &r);
	do
		uv_run(&v->loop, UV_RUN_NOWAIT);
	while (retire_busy(&v->d));
	return r;
}

#endif
