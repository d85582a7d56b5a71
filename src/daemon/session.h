/* SPDX-License-Identifier: MIT */
#ifndef VARVE_DAEMON_SESSION_H
#define VARVE_DAEMON_SESSION_H

/*
 * Sessions: who records what, with how much memory, for how long. A session has one channel, which
 * is one bit of every enable word. Rules are an ordered list; the last that matches an event
 * decides; without any rule every event is on.
 *
 * Functions that a user's request reaches return 0 or -errno and, where they fail, one line for the
 * user in *ret_error (new, owned by the caller). Loop thread only.
 */

#include <stdbool.h>
#include <stdint.h>
#include "base/list.h"
#include "base/pattern.h"
#include "ring/layout.h"
#include "wire/wire.h"

struct daemon;
struct store;

enum session_mode { SESSION_FLIGHT, SESSION_STREAM };

#define SESSION_BUDGET_DEFAULT (UINT64_C(32) << 20)
#define SESSION_BUDGET_MAX     (UINT64_C(1) << 30)
#define SESSION_WINDOW_DEFAULT (UINT64_C(60) * 1000000000)
#define SESSION_NAME_MAX       63u

struct session {
	struct list link; /* daemon->sessions, in order of creation */
	struct daemon *daemon;
	uint32_t refs;	 /* a worker's keeps it from being freed; see session_ref() */
	uint32_t serial; /* never used twice */
	char *name;	 /* owned */
	uint32_t channel;
	enum session_mode mode;
	bool active;	/* records; else stopped: data stay as they are */
	bool destroyed; /* gone from the list, referenced or draining still */
	bool drained;	/* no pool holds anything of its channel */
	uint64_t budget, window_ns;
	struct pattern_list rules;
	uint64_t started_at; /* trace clock, of the first start */
	uint64_t stopped_at; /* trace clock; 0 while it is active */
	uint64_t charged;    /* bytes of pools: grants, promises, and those going */
	uint32_t advance;    /* large sub-buffers promised to each process, while there is plenty */
	struct store *store; /* owned: packets of the dead */
	/* Of processes forgotten since: what the session saw in all. */
	uint64_t past_events;
	uint64_t past_lost[N_LOST_REASONS];
};

struct session_options {
	const char *name;
	enum session_mode mode;
	uint64_t budget, window_ns;  /* 0: the default */
	const char *const *patterns; /* borrowed */
	uint32_t n_patterns;
};

struct session *session_find(const struct daemon *d, const char *name);

/* The smallest budget that a session can have now; session_create() refuses less. */
uint64_t session_budget_min(const struct daemon *d);

/* Creates a session and starts it. -EEXIST, -EINVAL, -ENOSPC (channels), -ENOMEM. */
int session_create(
	struct daemon *d, const struct session_options *o, struct session **ret, char **ret_error);
/* Starts a stopped session again, with the data that it has. */
int session_start(struct session *s, char **ret_error);
/* Records no more; its data stay. Fine if it is stopped already. */
void session_stop(struct session *s);
/* Ends it and gives everything back. s is no longer the caller's. */
void session_destroy(struct session *s);
/* Adds rules: `p:e` switches on, `!p:e` off. session_disable() adds the opposite of each. */
int session_enable(struct session *s, const char *const *patterns, uint32_t n, char **ret_error);
int session_disable(struct session *s, const char *const *patterns, uint32_t n, char **ret_error);

/* Sums over all processes, the forgotten included. */
struct session_totals {
	uint64_t used; /* shared memory that is there for it, and the store */
	uint64_t store_used, huge_used;
	uint64_t base; /* header pages of the pools: not part of the budget */
	uint64_t events, lost[N_LOST_REASONS];
	uint32_t pools;
};
void session_totals(const struct session *s, struct session_totals *ret);

struct session *session_ref(struct session *s);
struct session *session_unref(struct session *s); /* NULL */

/* Bits that an event's enable word has now: one per active session that wants it. */
uint32_t session_word(const struct daemon *d, const struct wire_event *layout);

/* Bytes of its budget that are spoken for, in use or promised; and that are not. */
uint64_t session_used(const struct session *s);
uint64_t session_free_bytes(const struct session *s);

/* Of a destroyed session: its channel is empty; frees it if nobody holds it. */
void session_drained(struct session *s);

/* At the daemon's end: all sessions, whatever they hold. No process is left. */
void sessions_free(struct daemon *d);

#endif
