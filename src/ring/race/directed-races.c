/* SPDX-License-Identifier: MIT */
/* Races between a writer's steps and other writers, the daemon's steps and writers. */

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "ring/race/directed.h"

/* --- a scan that sleeps ------------------------------------------------------------------------- */

/* The scan, of a thread on the other CPU, has just seen idx 0 as current. Now its stream goes once
 * round the pool: idx 0 is then the oldest but one that is chosen by its end_ts. */
static void go_round(void)
{
	pin_to_cpu(TEST_CPU);
	emit_switches(2, N_SMALL - 1);
	pin_to_cpu(1);
}

static uint64_t states_at_claim[N_SUBS];

static void note_states(void)
{
	for (uint32_t i = 0; i < test_pool.n_subs; i++)
		states_at_claim[i] = test_state(i);
}

static void go_round_then_note(void)
{
	go_round();
	hook.running = false;
	note_states();
}

void case_scan_sleeps(void)
{
	uint64_t taken;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
		printf("skipped: needs two CPUs\n");
		exit(77);
	}
	init_full(1);
	while (current_idx(TEST_CPU) != 0)
		emit_switches(1, 1);
	pin_to_cpu(1);
	hook_set(INJECT_SCAN, 2, go_round_then_note);
	harness_emit(3, 0, BODY);
	hook_done();
	taken = states_at_claim[current_idx(1)];
	for (uint32_t i = 0; i < test_pool.n_subs; i++) {
		uint64_t s = states_at_claim[i];

		if (state_kind(s) == SUB_ACTIVE && state_cpu(s) == state_cpu(taken) &&
			gen_after(state_gen(taken), state_gen(s)))
			defect(DEFECT_OLDEST, "took gen %x, gen %x was there", state_gen(taken),
				state_gen(s));
	}
	harness_snapshot(true);
}

/* The scan has read when idx, another stream's current one, ended: in its life before. Now that
 * stream ends it. It is the newest of all, and must not be taken for the oldest. */
static void end_current(void)
{
	pin_to_cpu(TEST_CPU);
	emit_switches(2, 1);
	pin_to_cpu(1);
	hook.running = false;
	note_states();
}

void case_stale_end(void)
{
	uint64_t taken;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
		printf("skipped: needs two CPUs\n");
		exit(77);
	}
	init_full(1);
	/* The other CPU's stream holds everything but the current one of this CPU. */
	pin_to_cpu(1);
	while (pos_gen(test_line(0, 1)->pos) != ((GEN_MASK - 20 + 3 * N_SMALL) & GEN_MASK))
		harness_emit(3, 0, BODY);
	while (ring_has_room(&test_writer, test_line(0, 1)->pos, RECORD_COMPACT + BODY))
		harness_emit(3, 0, BODY);
	hook_set(INJECT_AGE, (int)current_idx(TEST_CPU) + 1, end_current);
	harness_emit(3, 0, BODY);
	hook_done();
	taken = states_at_claim[current_idx(1)];
	if (state_cpu(taken) != 1)
		defect(DEFECT_OLDEST, "took the newest, gen %x of the other stream",
			state_gen(taken));
	harness_snapshot(false);
}

/* --- what may happen between gathering and the switch section ------------------------------------- */

static uint64_t gathered_pos;

static uint64_t n_small_seen;

static void count_small(uint32_t slot, uint64_t seq)
{
	n_small_seen += slot == 4;
}

/* Somebody records a small one into the room that was left. */
static void small_record(void)
{
	harness_emit(4, 0, TEST_BODY_MIN);
}

void case_small_record(void)
{
	init_full(1);
	fill(1, 1000);
	hook_set(INJECT_CLAIM, 1, small_record);
	harness_emit(2, 0, 1000);
	hook_done();
	harness_on_record = count_small;
	harness_snapshot(true);
	if (n_small_seen != harness->slot[4].acked)
		defect(DEFECT_LOST, "the small record");
}

/* The stream goes round until pos has the same offset again. The claimer's choice, a free one, is
 * still free: the hint said that there is nothing new. */
static void same_offset_again(void)
{
	struct pool_channel *hint = &ring_header(&test_pool)->channel[0];

	hint->scanned = hint->freed;
	for (int i = 0; i < 1000000; i++) {
		harness_emit(4, 0, BODY);
		if (pos_off(line()->pos) == pos_off(gathered_pos))
			break;
	}
	if (pos_off(line()->pos) != pos_off(gathered_pos))
		defect(DEFECT_WEDGED, "the offset never came back");
	gathered_pos = line()->pos;
}

void case_aba(void)
{
	uint64_t s;

	init_full(1);
	/* Sub-buffers filled with records of one size only, then one of them free. */
	emit_switches(1, 2 * N_SMALL);
	do
		harness_emit(1, 0, BODY);
	while (ring_has_room(&test_writer, line()->pos, RECORD_COMPACT + BODY));
	for (uint32_t i = 0; i < test_pool.n_subs; i++) {
		s = test_state(i);
		if (test_retired(i, s) && ring_pin(&test_pool, i, s, &s) == 0) {
			ring_consume(&test_pool, i, s);
			break;
		}
	}
	gathered_pos = line()->pos;
	hook_set(INJECT_CLAIM, 1, same_offset_again);
	harness_emit(2, 0, BODY);
	hook_done();
	if (gen_after(pos_gen(gathered_pos), pos_gen(line()->pos)))
		defect(DEFECT_CHAIN, "gen went back from %x to %x", pos_gen(gathered_pos),
			pos_gen(line()->pos));
	harness_snapshot(true);
}

/* What a claimer on this CPU leaves that dies right after its claim. */
static void claim_and_die(uint32_t idx)
{
	uint32_t gen = gen_next(pos_gen(line()->pos));
	uint64_t s = test_state(idx);

	line()->next = pair_make(gen, idx);
	test_entry(idx)->state = state_make(SUB_ACTIVE, 0, TEST_CPU, state_ver(s) + 1, gen);
}

static uint32_t second_oldest(void)
{
	uint32_t best = SUB_NONE, oldest = SUB_NONE;

	for (int pass = 0; pass < 2; pass++) {
		oldest = best;
		best = SUB_NONE;
		for (uint32_t i = 0; i < test_pool.n_subs; i++) {
			uint64_t s = test_state(i);

			if (i != oldest && test_retired(i, s) &&
				(best == SUB_NONE ||
					gen_after(state_gen(test_state(best)), state_gen(s))))
				best = i;
		}
	}
	return best;
}

static void other_claims(void)
{
	claim_and_die(second_oldest());
}

void case_next(void)
{
	init_full(1);
	fill(1, BODY);
	hook_set(INJECT_CLAIM, 1, other_claims);
	harness_emit(2, 0, BODY);
	hook_done();
	check_one_per_gen();
	harness_snapshot(false);
}

static uint32_t half_claimed;

/* A second claimer does what the first one died before: next is the same, the state is not. */
static void other_finishes_claim(void)
{
	claim_and_die(half_claimed);
}

void case_next_state(void)
{
	init_full(1);
	fill(1, BODY);
	half_claimed = second_oldest();
	line()->next = pair_make(gen_next(pos_gen(line()->pos)), half_claimed);
	hook_set(INJECT_CLAIM, 1, other_finishes_claim);
	harness_emit(2, 0, BODY);
	hook_done();
	check_one_per_gen();
	harness_snapshot(false);
}

/* The daemon retires the stream between gathering and the section, also with a claim at large. */
static void retire_now(void)
{
	if (ring_retire(&test_pool, 0, TEST_CPU, line()->pos, RING_RSEQ, TRACE_CLOCK_TSC) != 0)
		defect(DEFECT_WEDGED, "cannot retire");
	STAT_ADD(retirements, 1);
}

static void claim_die_retire(void)
{
	uint32_t idx = second_oldest();

	claim_and_die(idx);
	retire_now();
	if (!test_retired(idx, test_state(idx)))
		defect(DEFECT_ORPHANS, "%u is still at large", idx);
	STAT_ADD(retired_orphans, 1);
}

void case_retire(void)
{
	init_full(1);
	for (int i = 0; i < 50; i++) {
		fill(1, BODY);
		hook_set(INJECT_CLAIM, 1, i & 1 ? retire_now : claim_die_retire);
		if (!harness_emit(2, 0, BODY))
			defect(DEFECT_LOST, "not recorded");
		hook_done();
		check_one_per_gen();
	}
	emit_switches(1, 3);
	harness_snapshot(false);
	/* Silent already, or moved since: nothing to retire. */
	retire_now();
	if (ring_retire(&test_pool, 0, TEST_CPU, line()->pos, RING_RSEQ, TRACE_CLOCK_TSC) !=
		RING_BUSY)
		defect(DEFECT_WEDGED, "retired a stream without sub-buffer");
	if (ring_retire(&test_pool, 0, TEST_CPU + 1, line()->pos, RING_RSEQ, TRACE_CLOCK_TSC) !=
		RING_BUSY)
		defect(DEFECT_WEDGED, "retired from another CPU");
}

/* --- what may happen between two steps of the daemon ----------------------------------------------- */

/* The program goes once round its pool: what the daemon looks at is another life's by then. */
static void whole_round(void)
{
	emit_switches(3, 2 * N_SMALL + 1);
}

void case_copy_raced(void)
{
	static uint8_t buf[LARGE_SIZE];
	struct ring_packet k = { .size = 0 };
	struct checked c;

	init_full(1);
	for (uint32_t i = 0; i < N_SMALL; i++) {
		uint64_t s = test_state(i);

		if (!test_retired(i, s))
			continue;
		k = (struct ring_packet){ .idx = i,
			.ch = 0,
			.stream = TEST_CPU,
			.gen = state_gen(s),
			.state = s,
			.begin_ts = test_entry(i)->begin_ts,
			.end_ts = test_entry(i)->end_ts,
			.size = pair_low(test_entry(i)->close) };
		/* Overwritten before its bytes are read: copied whole, but of another life. */
		whole_round();
		if (ring_copy(&test_pool, &k, buf) == 0)
			harness_check(&k, buf, false, &c);
		/* And while they are. */
		k.state = test_state(i);
		k.gen = state_gen(k.state);
		k.begin_ts = test_entry(i)->begin_ts;
		if (!test_retired(i, k.state))
			continue;
		hook_set(INJECT_COPY, 1, whole_round);
		if (ring_copy(&test_pool, &k, buf) != RING_BUSY)
			defect(DEFECT_RECORD, "a copy that was overtaken is taken for good");
		hook_done();
	}
}

void case_daemon_raced(void)
{
	static const enum ring_inject_point points[] = { INJECT_RECLAIM, INJECT_PIN };
	uint64_t pinned;

	init_full(1);
	for (uint32_t i = 0; i < 40; i++) {
		uint32_t idx = i % N_SMALL;
		uint64_t s = test_state(idx);
		int r;

		if (!test_retired(idx, s))
			continue;
		hook_set(points[i & 1], 1, whole_round);
		r = i & 1 ? ring_pin(&test_pool, idx, s, &pinned)
			  : ring_reclaim(&test_pool, idx, s);
		hook_done();
		if (r != RING_BUSY)
			defect(DEFECT_PINNED, "took %u from its next owner", idx);
	}
	emit_switches(1, N_SMALL);
	if (harness_snapshot(true) != N_SMALL)
		defect(DEFECT_LOST, "sub-buffers are missing");
}
