/* SPDX-License-Identifier: MIT */
#ifndef VARVE_RING_RACE_HARNESS_H
#define VARVE_RING_RACE_HARNESS_H

/*
 * What the race tests of the ring share: a pool that forked writers record into, records that tell
 * who made them and in which order, and a reader that checks every one and keeps the accounts in
 * shared memory, where they outlive killed processes.
 *
 * A writer acknowledges a record after ring_emit() returned. A killed one may have committed one
 * more than it acknowledged, never less.
 *
 * Body of a test record, byte-packed: u32 slot, u16 length of the body, u64 sequence number, u64
 * clock before the call, filler, u32 checksum of all before it.
 */

#include <stdint.h>
#include <stdbool.h>
#include <sys/types.h>
#include "ring/inject.h"
#include "ring/ring.h"
#include "ring/section.h"

/* What a test can find wrong; a mutant's test must find the one that belongs to it. */
enum defect {
	DEFECT_HEADER,	/* a packet's header does not agree with its state */
	DEFECT_RECORD,	/* records do not tile a packet, or a checksum is wrong */
	DEFECT_TIME,	/* times fall, or are before the call that they belong to */
	DEFECT_CHAIN,	/* a packet does not begin when its predecessor ended */
	DEFECT_COUNT,	/* count, n_before and records found disagree */
	DEFECT_LOST,	/* acknowledged records are missing, or doubled */
	DEFECT_HOLE,	/* a snapshot has a gap in the middle */
	DEFECT_PINNED,	/* a pinned or absent sub-buffer was written */
	DEFECT_CLOSE,	/* a retired sub-buffer has no size */
	DEFECT_ORPHANS, /* more than one claim of a stream at large */
	DEFECT_WEDGED,	/* no progress, a wrong exit */
	DEFECT_OLDEST,	/* recycled one that was not the oldest */
	DEFECT_BURNT,	/* sub-buffers used up for nothing */
	N_DEFECTS
};

#define N_SLOTS	    32768u
#define N_TEST_CH   2u
#define N_STREAMS   4u
#define N_SMALL	    24u
#define N_LARGE	    8u
#define N_SUBS	    (N_SMALL + N_LARGE)
#define SMALL_SHIFT 12u
#define LARGE_SHIFT 13u
#define LARGE_SIZE  (1u << LARGE_SHIFT)

struct slot {
	uint64_t acked, failed;		  /* by its writer */
	uint64_t found, sum, sum_squares; /* by a reader that takes every record once */
};

struct harness {
	struct slot slot[N_SLOTS];
	uint64_t defects[N_DEFECTS];
	uint64_t packets, records, extended, snapshots, dropped, holes, chained;
	uint64_t pins, reclaims, grants, retirements, retired_orphans, empty;
	uint64_t taken[N_TEST_CH][N_STREAMS];  /* records consumed, per stream */
	uint64_t ranges[N_TEST_CH][N_STREAMS]; /* telescoped hash of their [n_before, n) ranges */
	uint32_t messages;
	volatile uint32_t stop;
};

extern struct harness *harness;
extern struct ring_pool test_pool;
extern struct ring_writer test_writer;

#define STAT_ADD(field, n) __atomic_fetch_add(&harness->field, n, __ATOMIC_RELAXED)
#define STAT_GET(field)	   __atomic_load_n(&harness->field, __ATOMIC_RELAXED)

void defect(enum defect d, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Makes pool and writer. In mode RING_RSEQ exits with 77 (skipped) where there is no rseq.
 * gen0: gen that all streams start with. n_classes: 1 makes N_SMALL sub-buffers, 2 all.
 */
void harness_init(enum ring_mode mode, uint32_t flight, uint32_t gen0, uint32_t n_classes);
/* Grants all sub-buffers, to channels in turn if n_channels is 2. */
void harness_grant_all(uint32_t n_channels);

uint64_t random_next(uint64_t *state);
void pin_to_cpu(int cpu);
void die_with_parent(void);
double seconds_now(void);

/* Emits one record of a slot with body_len bytes (at least TEST_BODY_MIN), acknowledges it. */
#define TEST_BODY_MIN 26u
bool harness_emit(uint32_t slot, uint32_t ch, uint32_t body_len);
/* Of random length, now and then a large one, into a random channel. */
bool harness_emit_random(uint32_t slot, uint64_t *random);

/* A verified packet. */
struct checked {
	uint32_t n;
	uint64_t n_before, n_after, begin_ts, last_ts;
};

/* Checks a copy; 0 and *ret, or -1 after defect(). account: take its records once for all. */
int harness_check(const struct ring_packet *k, const void *copy, bool account, struct checked *ret);
/* Called for each record that harness_check() found good. May be NULL. */
extern void (*harness_on_record)(uint32_t slot, uint64_t seq);

/* Cuts, lists, copies and checks everything. strict: holes in the middle are defects. Returns the
 * number of packets kept. */
uint32_t harness_snapshot(bool strict);
/* Checks that consecutive packets of a stream fit, as far as both were seen. */
void harness_chain(const struct ring_packet *k, const struct checked *c);

/* Takes finished sub-buffers with all accounts; returns how many. */
uint32_t harness_consume_all(void);
/* The current ones, when all writers are gone. */
void harness_consume_current(void);
/* All records consumed: counts per stream and per slot must agree. */
void harness_check_accounts(uint32_t n_slots);
/* Sum over streams of records committed. */
uint64_t harness_committed(void);

struct stream_line *test_line(uint32_t ch, uint32_t stream);
struct sub_entry *test_entry(uint32_t idx);
uint64_t test_state(uint32_t idx);
bool test_retired(uint32_t idx, uint64_t state);

/*
 * Prints what was found. 0 if no defect was, or, with expected not NULL (the name of a defect as
 * printed), if that one was: then a mutant was under test.
 */
int harness_finish(const char *expected);

#endif
