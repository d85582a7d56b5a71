/* SPDX-License-Identifier: MIT */
#ifndef VARVE_DAEMON_NEED_H
#define VARVE_DAEMON_NEED_H

/*
 * What one living process needs of a session's budget: the bytes of data that it has within the
 * window, and room for what it will write before the next looks. A process that is about to run out
 * needs twice what it has, so that it grows to its share in a few looks.
 *
 * Looking is also when data older than the window go: their sub-buffers are taken back (and the
 * records counted as aged), and streams that fell silent are put up for retirement.
 */

#include "daemon/memory/grant.h"
#include "daemon/memory/pool-view.h"

struct process;
struct session;

struct need {
	uint64_t need, floor; /* for the balance */
	uint64_t live;	      /* bytes that it has, without those going and the advance */
	uint64_t data;	      /* of them, those that hold records */
	uint32_t advance;     /* large sub-buffers promised on top, for bursts */
	uint32_t n_subs;
	uint32_t n_subs_min; /* two for each stream in use */
	bool starving;	     /* switched, and has nothing spare */
	bool growing;	     /* is awake: give memory, not promises */
	bool idle;	     /* no data, and none of late, but memory made for some */
};

/* dt_ns: since the last look. Adds what it finds to *result. 0 or -ENOMEM. */
int need_measure(struct process *p, struct session *s, struct pool_view *view, uint64_t dt_ns,
	struct need *ret, struct grant_result *result);

#endif
