/* SPDX-License-Identifier: MIT */
#ifndef VARVE_RING_INJECT_H
#define VARVE_RING_INJECT_H

/*
 * Places where a test may step in: to sleep, to let another writer run, to be killed. Empty unless
 * RING_INJECT is defined, which only builds for tests do; those define ring_inject() too.
 */

enum ring_inject_point {
	INJECT_SCAN,	/* writer: about to look at entry idx in its scan for the oldest */
	INJECT_AGE,	/* writer: has read its end_ts, but not yet whether it is retired */
	INJECT_CLAIM,	/* writer: all gathered, the switch section comes next */
	INJECT_LOCKED,	/* lock-owned writer: has the stream */
	INJECT_COUNTED, /* lock-owned writer: count stored, pos not yet */
	INJECT_RECLAIM, /* daemon: found RETIRED, CAS comes next */
	INJECT_PIN,	/* daemon: likewise */
	INJECT_COPY,	/* daemon: bytes read, state not yet checked again */
	N_INJECT_POINTS
};

#ifdef RING_INJECT
void ring_inject(enum ring_inject_point point);
#define INJECT(point) ring_inject(point)
#else
#define INJECT(point) ((void)0)
#endif

#endif
