/* SPDX-License-Identifier: MIT */
#ifndef VARVE_DAEMON_POOL_H
#define VARVE_DAEMON_POOL_H

/*
 * The daemon's books about one pool: what it granted, to which session, and what that costs.
 *
 * The books (struct pool_sub) are private. The table in shared memory says what the program did
 * with a grant; what a grant costs, and whether there is one, only the books say. A sub-buffer
 * counts against its session's budget from the promise or the grant until its memory is punched.
 *
 * Loop thread only, but for ring: a worker that holds a reader reference (pool_hold) may copy from
 * ring.
 */

#include <stdint.h>
#include "ring/ring.h"
#include "daemon/session.h"

enum pool_sub_kind {
	POOL_SUB_NONE,	   /* ABSENT, no memory */
	POOL_SUB_HELD,	   /* granted: FREE, ACTIVE or PINNED */
	POOL_SUB_PROMISED, /* as promised; the program may have populated it */
	POOL_SUB_GOING,	   /* taken back, still to be punched */
};

struct pool_sub {
	uint8_t kind; /* enum pool_sub_kind */
	uint8_t ch;
};

/* Per channel that the pool ever had a grant of. */
struct pool_channel_books {
	uint64_t charged;	      /* bytes, promises and those going included */
	uint32_t n[POOL_N_CLASSES_MAX]; /* held or promised */
	uint32_t gens;		      /* sum of the streams' generations at the last tick */
	uint64_t need, share;	      /* of the last balance */
	uint64_t rate;		      /* bytes a second, of late */
};

struct pool {
	struct ring_pool ring;
	enum ring_mode mode;
	enum trace_clock clock;
	struct pool_sub *subs;	/* owned, ring.n_subs of them */
	uint32_t n_end[POOL_N_CLASSES_MAX]; /* no index of the class at or above was ever granted */
	struct pool_channel_books channel[POOL_N_CHANNELS];
	uint64_t *seen;		/* owned: pos of each stream at the last tick, by channel */
	uint32_t n_going;
	uint32_t readers;	/* workers that copy from it: keep its packets where they are */
	uint64_t base_bytes;	/* of the last audit: header, lines, table */
};

#endif
