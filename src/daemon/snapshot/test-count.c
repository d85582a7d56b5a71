/* SPDX-License-Identifier: MIT */

/* The accounting of a snapshot, on packets made up by hand: every record in one place, exactly. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/snapshot/data.h"

#define NOW	     1000u
#define KEEP_SINCE   100u
#define WINDOW_SINCE 150u /* a margin of what is older is kept, where it was not taken back */

struct fixture {
	struct snapshot sn;
	struct snapshot_process p[2];
	struct snapshot_stream streams[2][2];
	struct snapshot_packet k[16];
};

/* Two processes of two streams with a pool; n committed in each first stream. */
static void setup(struct fixture *f, uint64_t n)
{
	memset(f, 0, sizeof(*f));
	f->sn.now = NOW;
	f->sn.keep_since = KEEP_SINCE;
	f->sn.window_since = WINDOW_SINCE;
	f->sn.processes = f->p;
	f->sn.n_processes = 2;
	f->sn.packets = f->k;
	for (int i = 0; i < 2; i++) {
		f->p[i].n_streams = 2;
		f->p[i].streams = f->streams[i];
		f->p[i].pool = (struct pool *)f; /* there is one; nobody looks into it */
		f->p[i].since = 10;
		f->p[i].committed = n;
		f->streams[i][0].n = n;
		f->streams[i][0].last_ts = NOW - 1;
	}
}

static struct snapshot_packet *add(struct fixture *f, uint32_t process, uint32_t gen,
	enum snapshot_outcome outcome, uint64_t n_before, uint32_t n)
{
	struct snapshot_packet *k = &f->k[f->sn.n_packets++];

	k->process = process;
	k->k.gen = gen;
	k->k.begin_ts = 100 + 10 * gen;
	k->k.end_ts = 110 + 10 * gen;
	k->outcome = (uint8_t)outcome;
	k->header_good = true;
	k->n_before = n_before;
	k->n = n;
	return k;
}

static void refuse(struct snapshot_packet *k, enum left_out_reason why, bool header_good)
{
	k->outcome = PACKET_REFUSED;
	k->reason = (uint8_t)why;
	k->header_good = header_good;
}

static uint64_t accounted(const struct snapshot_process *p)
{
	uint64_t n = p->events + p->overwritten + p->aged + p->consumed;

	for (int i = 0; i < N_LEFT_OUT_REASONS; i++)
		n += p->left_out[i];
	return n;
}

static void all_kept(void **state)
{
	struct fixture f;

	setup(&f, 30);
	add(&f, 0, 2, PACKET_KEPT, 10, 20); /* any order */
	add(&f, 0, 1, PACKET_KEPT, 0, 10);
	add(&f, 1, 1, PACKET_KEPT, 0, 30);
	snapshot_count(&f.sn);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(f.p[i].events, 30);
		assert_int_equal(accounted(&f.p[i]), 30);
		assert_int_equal(f.p[i].overwritten, 0);
		assert_int_equal(f.p[i].complete_since, KEEP_SINCE);
	}
}

static void overwritten_and_aged(void **state)
{
	struct fixture f;

	setup(&f, 100);
	add(&f, 0, 9, PACKET_KEPT, 70, 30);
	f.p[0].aged = 40;		  /* the daemon's own */
	add(&f, 1, 7, PACKET_OLD, 20, 0); /* 30 */
	add(&f, 1, 8, PACKET_OLD, 50, 0); /* 20 */
	add(&f, 1, 9, PACKET_KEPT, 70, 25)->trimmed = 5;
	f.p[1].aged = 20;
	snapshot_count(&f.sn);
	assert_int_equal(f.p[0].overwritten, 30);
	assert_int_equal(f.p[0].aged, 40);
	assert_int_equal(accounted(&f.p[0]), 100);
	assert_int_equal(f.p[0].complete_since, 190);
	assert_int_equal(f.p[1].overwritten, 0);
	assert_int_equal(f.p[1].aged, 20 + 50 + 5);
	assert_int_equal(f.p[1].events, 25);
	assert_int_equal(accounted(&f.p[1]), 100);
	assert_int_equal(f.p[1].complete_since, WINDOW_SINCE);
}

static void only_old_ones(void **state)
{
	struct fixture f;

	setup(&f, 100);
	add(&f, 0, 7, PACKET_OLD, 60, 0);
	add(&f, 0, 8, PACKET_OLD, 90, 0);
	snapshot_count(&f.sn);
	assert_int_equal(f.p[0].aged, 40);
	assert_int_equal(f.p[0].overwritten, 60);
	assert_int_equal(accounted(&f.p[0]), 100);
	assert_int_equal(f.p[0].complete_since, KEEP_SINCE); /* it was silent in the window */
	/* The other one: nothing listed, nothing taken back: all overwritten, up to its last. */
	assert_int_equal(f.p[1].overwritten, 100);
	assert_int_equal(f.p[1].complete_since, NOW);
}

static void gaps_have_reasons(void **state)
{
	struct snapshot_packet *before;
	struct fixture f;

	setup(&f, 100);
	add(&f, 0, 1, PACKET_KEPT, 0, 10);
	refuse(add(&f, 0, 2, PACKET_LISTED, 10, 0), LEFT_BAD_RECORD, true);
	refuse(add(&f, 0, 3, PACKET_LISTED, 0, 0), LEFT_BAD_HEADER, false);
	add(&f, 0, 4, PACKET_KEPT, 50, 10);
	refuse(add(&f, 0, 5, PACKET_LISTED, 0, 0), LEFT_RACED, false);
	snapshot_count(&f.sn);
	before = &f.k[0];
	assert_int_equal(f.p[0].events, 20);
	assert_int_equal(f.p[0].left_out[LEFT_BAD_RECORD] + f.p[0].left_out[LEFT_BAD_HEADER], 40);
	assert_int_equal(f.p[0].left_out[LEFT_RACED], 40);
	assert_int_equal(accounted(&f.p[0]), 100);
	assert_int_equal(f.p[0].complete_since, NOW);
	assert_int_equal(before->discarded, 40);
	assert_int_equal(f.k[3].discarded, 40);
}

static void all_refused(void **state)
{
	struct fixture f;

	setup(&f, 100);
	f.p[0].aged = 30;
	refuse(add(&f, 0, 5, PACKET_LISTED, 0, 0), LEFT_BAD_HEADER, false);
	refuse(add(&f, 1, 5, PACKET_LISTED, 60, 0), LEFT_BAD_TIME, true);
	snapshot_count(&f.sn);
	assert_int_equal(f.p[0].left_out[LEFT_BAD_HEADER], 70);
	assert_int_equal(accounted(&f.p[0]), 100);
	assert_int_equal(f.p[1].left_out[LEFT_BAD_TIME], 40);
	assert_int_equal(f.p[1].overwritten, 60);
	assert_int_equal(accounted(&f.p[1]), 100);
}

static void losses_are_told(void **state)
{
	struct fixture f;

	setup(&f, 30);
	add(&f, 0, 1, PACKET_KEPT, 0, 10)->lost = 5; /* before all that is kept: not told */
	add(&f, 0, 2, PACKET_KEPT, 10, 10)->lost = 7;
	add(&f, 0, 3, PACKET_KEPT, 20, 10)->lost = 7;
	f.streams[0][0].lost = 10;
	f.p[0].lost[LOST_NOBUF] = 10;
	/* A dead one: only the sum is known. */
	f.p[1].pool = NULL;
	f.p[1].lost[LOST_NOBUF] = 8;
	f.p[1].lost_base = 1;
	add(&f, 1, 1, PACKET_KEPT, 0, 30)->lost = 4;
	snapshot_count(&f.sn);
	assert_int_equal(f.k[0].discarded, 2);
	assert_int_equal(f.k[1].discarded, 0);
	assert_int_equal(f.k[2].discarded, 3);
	assert_int_equal(f.p[0].complete_since, NOW);
	assert_int_equal(f.k[3].discarded, 5);
	assert_int_equal(accounted(&f.p[0]), 30);
	assert_int_equal(accounted(&f.p[1]), 30);
}

static void gens_wrap(void **state)
{
	struct fixture f;

	setup(&f, 30);
	add(&f, 0, 1, PACKET_KEPT, 20, 10);
	add(&f, 0, GEN_MASK, PACKET_KEPT, 0, 10);
	add(&f, 0, 0, PACKET_KEPT, 10, 10);
	snapshot_count(&f.sn);
	assert_int_equal(f.p[0].events, 30);
	assert_int_equal(f.p[0].overwritten, 0);
	assert_int_equal(accounted(&f.p[0]), 30);
	assert_int_equal(f.k[0].k.gen, GEN_MASK);
	assert_int_equal(f.k[2].k.gen, 1);
}

/* Counts that a hostile program made up: no overflow, no number from nowhere. */
static void rubbish_is_bounded(void **state)
{
	struct fixture f;

	setup(&f, 30);
	add(&f, 0, 1, PACKET_KEPT, UINT64_MAX, 10);
	add(&f, 0, 2, PACKET_KEPT, 3, 10);
	refuse(add(&f, 0, 3, PACKET_LISTED, UINT64_MAX - 5, 0), LEFT_BAD_RECORD, true);
	snapshot_count(&f.sn);
	assert_int_equal(f.p[0].events, 20);
	assert_int_equal(f.p[0].left_out[LEFT_BAD_RECORD], 0);
	assert_true(accounted(&f.p[0]) <= 30 + 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_kept),
		cmocka_unit_test(overwritten_and_aged),
		cmocka_unit_test(only_old_ones),
		cmocka_unit_test(gaps_have_reasons),
		cmocka_unit_test(all_refused),
		cmocka_unit_test(losses_are_told),
		cmocka_unit_test(gens_wrap),
		cmocka_unit_test(rubbish_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
