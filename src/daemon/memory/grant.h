/* SPDX-License-Identifier: MIT */
#ifndef VARVE_DAEMON_GRANT_H
#define VARVE_DAEMON_GRANT_H

/*
 * Moves memory: measures what each pool needs, lets balance.c share the budget, takes back from who
 * has too much (oldest data first) and gives to who has too little. Data older than the window goes
 * back to the system. While there is more than everybody needs, each process has an advance: large
 * sub-buffers promised but not made, which take up a burst before the daemon can.
 */

#include <stdbool.h>
#include <stdint.h>

#define GRANT_SMALL	  4096u
#define GRANT_LARGE	  65536u
#define GRANT_ADVANCE_MAX 8u /* large sub-buffers promised on top, to each process */

struct daemon;
struct pool;
struct session;

/* What one tick found. */
struct grant_result {
	bool moved;	  /* a commit word changed since the last tick */
	bool switched;	  /* a stream began a sub-buffer since then */
	bool hungry;	  /* somebody grows, or waits for memory under way: look again soon */
	bool plenty;	  /* a session has memory that nobody needs so far */
	bool pending;	  /* something is still to be punched or retired */
	uint64_t next_ns; /* from now until data will be older than the window; UINT64_MAX: never */
};

int grant_init(struct daemon *d);
void grant_fini(struct daemon *d);

/* One tick over all sessions and pools. */
void grant_tick(struct daemon *d, struct grant_result *ret);

/* Bytes of a budget that only minima may come from. */
uint64_t grant_reserve(const struct daemon *d);

/* Promises at most n large sub-buffers more, as far as the budget has them without the reserve. */
void grant_advance(struct session *s, struct pool *pool, uint32_t n);

#endif
