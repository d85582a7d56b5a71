/* SPDX-License-Identifier: MIT */
#ifndef VARVE_DAEMON_POOL_VIEW_H
#define VARVE_DAEMON_POOL_VIEW_H

/*
 * What a program has made of its grants in one channel, at one moment: a list of the sub-buffers
 * that the books say are given, with their state in shared memory, checked and clamped. All that
 * decides about memory (grant.c) and all that buries the dead (burial.c) looks through this.
 */

#include <stdint.h>
#include "daemon/memory/pool.h"

enum sub_use {
	SUB_USE_SPARE,	  /* FREE: memory that waits */
	SUB_USE_PROMISED, /* promised, no memory yet */
	SUB_USE_RETIRED,
	SUB_USE_BUSY, /* current, orphan or pinned */
	SUB_USE_ODD,  /* a state that an honest program cannot make */
};

struct sub_view {
	uint32_t idx, size;
	enum sub_use use;
	uint64_t state;
	uint64_t begin_ts;
	uint64_t last_ts; /* no record in it is later; of RETIRED and BUSY ones */
};

struct pool_view {
	struct sub_view *subs; /* owned, reused from one look to the next */
	uint32_t n, room;
	uint64_t bytes_spare, bytes_promised, bytes_data;
	uint32_t n_streams; /* that ever began a sub-buffer */
	uint64_t switched;  /* bytes of sub-buffers filled since the last tick */
	bool began;	    /* a stream has another sub-buffer than at the last tick */
	bool moved;	    /* a pos changed since the last tick */
};

/* Looks at a channel. tick: remembers positions for the next look, in the books. 0 or -ENOMEM. */
int pool_view_take(struct pool_view *v, struct pool *p, uint32_t ch, uint64_t now, bool tick);
void pool_view_fini(struct pool_view *v);

/* Puts RETIRED ones first, the oldest of them at the front: the order in which they are taken. */
void pool_view_sort_by_age(struct pool_view *v);

/* Records in the RETIRED sub-buffer i of the view, by the counts in its header and its successor's;
 * 0 where those do not fit. */
uint64_t pool_view_records(const struct pool_view *v, const struct pool *p, uint32_t i);

#endif
