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
 * Loop thread only, but for ring: a worker that holds a reader reference (process_hold_pool) may
 * copy from ring.
 */

#include <stdbool.h>
#include <stdint.h>
#include "ring/ring.h"

struct daemon;
struct session;

enum pool_sub_kind {
	POOL_SUB_NONE,	   /* no memory, not charged */
	POOL_SUB_HELD,	   /* granted: FREE, ACTIVE or PINNED */
	POOL_SUB_PROMISED, /* as promised; the program may have populated it, and use it */
	POOL_SUB_GOING,	   /* taken back, still to be punched */
};

struct pool_sub {
	uint8_t kind; /* enum pool_sub_kind */
	uint8_t ch;
	bool silent;	     /* its life of silent_gen was ended by us, for silence: */
	uint32_t silent_gen; /* nothing in it is younger than the window */
};

/* What is known of one channel of the pool. */
struct pool_channel_books {
	uint64_t charged; /* bytes, those going included */
	uint64_t going;	  /* of them */
	uint32_t n_subs;  /* held or promised */
	uint64_t rate;	  /* bytes of records a second: the most within about a window */
	uint64_t burst_bytes, burst_ns; /* of the second under way */
	uint64_t moved_at;		/* trace clock: a look found that it had recorded */
	uint64_t *seen;	    /* owned: pos of each stream at the last tick; NULL before the first */
	uint64_t retire_at; /* not before: silent sub-buffers that could not be ended (ticks) */
	uint32_t retire_fails;
};

struct pool {
	struct ring_pool ring;
	enum ring_mode mode;
	enum trace_clock clock;
	struct pool_sub *subs;		    /* owned: ring.n_subs of them */
	uint32_t n_end[POOL_N_CLASSES_MAX]; /* no index of the class at or above was ever given */
	struct pool_channel_books channel[POOL_N_CHANNELS];
	uint32_t n_going;
	uint32_t readers;    /* workers that copy from it: its packets stay where they are */
	uint64_t base_bytes; /* of the last audit: header, lines, table */
	/* Trace clock: until then some were pinned, and younger ones overwritten in their place;
	 * UINT64_MAX while some are (snapshot.c). */
	uint64_t pinned_until;
};

/* A new pool that fits into room bytes of address space. 0 or -errno. */
int pool_new(struct daemon *d, uint64_t room, enum ring_mode mode, struct pool **ret);
/* Gives all its memory back, whoever has it mapped, and all charges. */
void pool_free(struct daemon *d, struct pool *p);

/*
 * Grants a sub-buffer of the class, or promises one: the lowest index there is. 0; -ENOSPC if the
 * class is used up; -errno if there is no memory. Does not look at budgets.
 */
int pool_give(struct daemon *d, struct pool *p, struct session *s, uint32_t class, bool promise);

/* Takes one back: a RETIRED one in this state, or a FREE or PROMISED one. 0 or RING_BUSY. */
int pool_reclaim(struct pool *p, uint32_t idx, uint64_t state);
int pool_revoke(struct pool *p, uint32_t idx);

/* Punches what is going; then it costs nothing. Not in the tick that took it back, but where the
 * memory is needed at once: pool_audit() finds what came back. */
void pool_punch(struct daemon *d, struct pool *p);
void pool_punch_one(struct daemon *d, struct pool *p, uint32_t idx);

/* Takes any given one back from a pool whose program is dead, at once. */
void pool_drop(struct daemon *d, struct pool *p, uint32_t idx);

/* Compares the memory that the pool has with what it was given; cuts off the rest. */
void pool_audit(struct pool *p);

/* Bytes of the channel that are promised and not yet there. */
uint64_t pool_promised_bytes(const struct pool *p, uint32_t ch);

/* Takes up to n promised ones of the class back, the highest index first. Returns how many. */
uint32_t pool_revoke_promised(struct pool *p, uint32_t ch, uint32_t class, uint32_t n);

uint32_t pool_sub_size(const struct pool *p, uint32_t idx);

#endif
