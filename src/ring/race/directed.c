/* SPDX-License-Identifier: MIT */
/*
 * Races made on purpose, one per case: what happens between two steps of a writer happens in a hook
 * there (ring/inject.h), on the same CPU, as it would while that writer sleeps.
 *
 *	directed CASE [must-find=DEFECT]
 */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ring/race/harness.h"

#define TEST_CPU 0
#define BODY	 40u

#ifdef RING_TEST_CLOCK_STEPS
uint64_t ring_test_clock_step;
#endif

/* Called once, at the n-th time that point is reached outside of a hook. */
static struct {
	enum ring_inject_point point;
	int countdown;
	void (*run)(void);
	bool running;
} hook;

void ring_inject(enum ring_inject_point point)
{
	if (!hook.run || hook.running || point != hook.point || --hook.countdown > 0)
		return;
	hook.running = true;
	hook.run();
	hook.running = false;
	hook.run = NULL;
}

static void hook_set(enum ring_inject_point point, int nth, void (*run)(void))
{
	hook.point = point;
	hook.countdown = nth;
	hook.run = run;
}

static void hook_done(void)
{
	if (hook.run)
		defect(DEFECT_WEDGED, "the race did not happen");
}

static struct stream_line *line(void)
{
	return test_line(0, TEST_CPU);
}

static uint32_t current_idx(uint32_t stream)
{
	return geometry_idx(&test_pool.geometry, pos_off(test_line(0, stream)->pos));
}

/* Records until there is no room for another of body bytes, but still for a small one. */
static void fill(uint32_t slot, uint32_t body)
{
	do
		harness_emit(slot, 0, TEST_BODY_MIN);
	while (ring_has_room(&test_writer, line()->pos, RECORD_COMPACT + body));
}

static void emit_switches(uint32_t slot, uint32_t n)
{
	uint32_t gen = (pos_gen(line()->pos) + n) & GEN_MASK;

	for (uint32_t i = 0; pos_gen(line()->pos) != gen; i++) {
		harness_emit(slot, 0, BODY);
		if (i > 1000 * n) {
			defect(DEFECT_WEDGED, "gen does not grow");
			return;
		}
	}
}

static void check_one_per_gen(void)
{
	for (uint32_t i = 0; i < test_pool.n_subs; i++) {
		for (uint32_t j = 0; j < i; j++) {
			uint64_t a = test_state(i), b = test_state(j);

			if (state_kind(a) == SUB_ACTIVE && state_kind(b) == SUB_ACTIVE &&
				state_ch(a) == state_ch(b) && state_cpu(a) == state_cpu(b) &&
				state_gen(a) == state_gen(b))
				defect(DEFECT_ORPHANS, "%u and %u are of one gen", i, j);
		}
	}
}

static void init_full(uint32_t flight)
{
	pin_to_cpu(TEST_CPU);
	harness_init(RING_RSEQ, flight, GEN_MASK - 20, 1);
	harness_grant_all(1);
	emit_switches(1, 3 * N_SMALL);
}

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

static void case_scan_sleeps(void)
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

static void case_stale_end(void)
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

static void case_small_record(void)
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

static void case_aba(void)
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

static void case_next(void)
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

static void case_next_state(void)
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

static void case_retire(void)
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

static void case_copy_raced(void)
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

static void case_daemon_raced(void)
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

/* --- sizes, clocks -------------------------------------------------------------------------------- */

static void case_oversize(void)
{
	static uint8_t body[2 * POOL_PAGE];
	uint32_t gen, lost;

	init_full(1);
	gen = pos_gen(line()->pos);
	lost = line()->lost[LOST_TOOBIG];
	/* The extended form is the longer one: a size that fits in the compact form only. */
	line()->last_ts = 0;
	for (uint32_t len = RECORD_BODY_MAX + 1; len <= RECORD_BODY_MAX + 200; len++)
		if (ring_emit(&test_writer, 0, 1, body, len) != RING_LOST)
			defect(DEFECT_LOST, "recorded %u bytes", len);
	if (pos_gen(line()->pos) != gen)
		defect(DEFECT_BURNT, "%u sub-buffers", (pos_gen(line()->pos) - gen) & GEN_MASK);
	if (line()->lost[LOST_TOOBIG] - lost != 200)
		defect(DEFECT_COUNT, "lost %u", line()->lost[LOST_TOOBIG] - lost);
	for (int i = 0; i < 50; i++) {
		line()->last_ts = 0;
		if (!harness_emit(2, 0, RECORD_BODY_MAX))
			defect(DEFECT_LOST, "the largest is not recorded");
	}
	harness_snapshot(true);
}

/* With the clock shifted left by 8, 32 bits wrap every few milliseconds. */
static void case_wrap(void)
{
	init_full(1);
	for (uint32_t i = 0; i < 60; i++) {
		harness_emit(2, 0, BODY);
		if (i % 4 == 0)
			usleep(i * 300);
	}
	harness_snapshot(true);
}

/* Both CPUs switch without pause, and a clock that stands still for milliseconds. */
static void case_ties(void)
{
	double end = seconds_now() + 1.5;
	pid_t pid[2];

	harness_init(RING_RSEQ, 1, GEN_MASK - 20, 1);
	harness_grant_all(1);
	for (int i = 0; i < 2; i++) {
		pid[i] = fork();
		if (pid[i] == 0) {
			die_with_parent();
			for (;;)
				harness_emit((uint32_t)(2 + i), 0, 900);
		}
	}
	while (seconds_now() < end)
		harness_snapshot(true);
	for (int i = 0; i < 2; i++) {
		kill(pid[i], SIGKILL);
		waitpid(pid[i], NULL, 0);
	}
	harness_snapshot(true);
}

#ifdef RING_TEST_CLOCK_STEPS
static uint32_t any_body_len(void *arg, uint32_t id, const uint8_t *body, uint32_t avail)
{
	uint16_t len;

	memcpy(&len, body + 4, 2);
	return avail >= TEST_BODY_MIN && len <= avail ? len : 0;
}
#endif

/* The clock steps back within one packet: that one cannot be believed, all others can. */
static void case_step_back(void)
{
#ifdef RING_TEST_CLOCK_STEPS
	static struct ring_packet list[N_SUBS];
	static uint8_t buf[LARGE_SIZE];
	uint64_t cuts[N_STREAMS] = { 0 }, last_ts;
	uint32_t n, n_records, n_bad = 0;

	init_full(1);
	ring_test_clock_step = UINT64_C(1) << 40;
	emit_switches(2, 2);
	harness_emit(2, 0, BODY);
	ring_test_clock_step = 0;
	harness_emit(2, 0, BODY);
	emit_switches(2, 2);
	ring_stream_records(&test_pool, 0, TEST_CPU, &cuts[TEST_CPU]);
	n = ring_list(&test_pool, 0, cuts, list);
	for (uint32_t i = 0; i < n; i++) {
		int r = ring_copy(&test_pool, &list[i], buf);

		if (r == 0)
			r = ring_verify(&list[i], buf, UINT64_MAX, any_body_len, NULL, NULL,
				&n_records, &last_ts);
		if (r == 1 + LEFT_BAD_TIME || r == 1 + LEFT_BAD_HEADER)
			n_bad++;
		else if (r != 0)
			defect(DEFECT_TIME, "packet %u: %d", i, r);
	}
	if (n_bad != 1)
		defect(DEFECT_TIME, "%u packets are bad", n_bad);
#endif
}

/* --- rubbish -------------------------------------------------------------------------------------- */

/* pos is overwritten so that it names the end of an old sub-buffer; writers find that out. */
static void case_heal(void)
{
	uint32_t corrupt;

	init_full(1);
	for (uint32_t i = 0; i < 200; i++) {
		uint32_t victim = i % N_SMALL, gen = i & 1 ? pos_gen(line()->pos) : i;

		if (victim == current_idx(TEST_CPU))
			continue;
		corrupt = line()->lost[LOST_CORRUPT];
		line()->pos = pos_make(gen, pos_par(line()->pos),
			i % 3 == 0 ? 0 : geometry_sub_off(&test_pool.geometry, victim) + 4090);
		if (i % 3 == 0 && (i & 1))
			continue; /* nothing wrong with that one: no sub-buffer, same gen */
		if (!harness_emit(2, 0, BODY))
			defect(DEFECT_WEDGED, "not recorded after a bad pos");
		if (line()->lost[LOST_CORRUPT] != corrupt + 1)
			defect(DEFECT_COUNT, "corruption %u not counted", i);
		check_one_per_gen();
		harness_snapshot(false);
		emit_switches(2, 2);
		/* What a wrong close word spoiled, or a wrong gen hid for ever. */
		for (uint32_t k = 0; k < test_pool.n_subs; k++)
			if (ring_classify(&test_pool, k, test_state(k), NULL) == RING_ORPHAN)
				defect(DEFECT_ORPHANS, "%u is out of reach", k);
	}
}

/* --- processes ------------------------------------------------------------------------------------ */

/* A debugger that single-steps makes the kernel restart every section: it must end all the same. */
static void case_single_step(void)
{
	uint64_t steps = 0;
	int status;
	pid_t pid;

	init_full(1);
	pid = fork();
	if (pid == 0) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		harness_emit(2, 0, BODY);
		harness_emit(2, 0, BODY);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	for (;;) {
		ptrace(PTRACE_SINGLESTEP, pid, 0, 0);
		waitpid(pid, &status, 0);
		if (WIFEXITED(status))
			break;
		if (++steps > 200000) {
			defect(DEFECT_WEDGED, "no end of it");
			kill(pid, SIGKILL);
			waitpid(pid, &status, 0);
			break;
		}
	}
	printf("%llu steps, %llu recorded, %llu lost\n", (unsigned long long)steps,
		(unsigned long long)harness->slot[2].acked,
		(unsigned long long)harness->slot[2].failed);
	if (harness->slot[2].acked + line()->lost[LOST_RETRY] != 2)
		defect(DEFECT_COUNT, "lost %u", line()->lost[LOST_RETRY]);
	harness_snapshot(true);
}

/* A vfork child shares our memory, thread area included, but not our registration: on another CPU it
 * still takes itself to be here, and nothing restarts it. */
static void emit_in_vfork_child(bool elsewhere)
{
	pid_t pid = vfork();

	/* What one must not do there is what this is about. NOLINTBEGIN(clang-analyzer-unix.Vfork) */
	if (pid == 0) {
		if (elsewhere)
			pin_to_cpu(1);
		for (int i = 0; i < 300; i++)
			harness_emit(2, 0, BODY);
		_exit(0);
	}
	/* NOLINTEND(clang-analyzer-unix.Vfork) */
	waitpid(pid, NULL, 0);
}

/* It may spoil packets of its process; nobody crashes, and all go on. */
static void case_vfork(void)
{
	pid_t pid;

	init_full(1);
	for (int round = 0; round < 20; round++) {
		emit_in_vfork_child(false);
		if (!harness_emit(3, 0, BODY))
			defect(DEFECT_WEDGED, "not recorded after vfork");
	}
	emit_switches(4, N_SMALL);
	harness_snapshot(true);
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		return;
	/* Now it writes into a stream while another writer does. */
	pid = fork();
	if (pid == 0) {
		die_with_parent();
		for (;;)
			harness_emit(5, 0, BODY);
	}
	for (int round = 0; round < 300; round++)
		emit_in_vfork_child(true);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	emit_switches(4, 2 * N_SMALL);
	harness_snapshot(true);
}

/* Forked without exec, nothing wiped (libvarve wipes): both are ordinary writers of one pool. */
static void case_fork(void)
{
	pid_t pid[4];

	harness_init(RING_RSEQ, 0, 0, 1);
	harness_grant_all(1);
	for (uint32_t i = 0; i < 4; i++) {
		pid[i] = fork();
		if (pid[i] == 0) {
			for (int k = 0; k < 150; k++)
				harness_emit(2 + i, 0, BODY);
			_exit(0);
		}
	}
	for (int i = 0; i < 4; i++)
		waitpid(pid[i], NULL, 0);
	harness_consume_all();
	harness_consume_current();
	harness_check_accounts(16);
}

/* Without registration the kernel writes cpu -1 there: records are lost and counted, no more. */
static void case_unregistered(void)
{
	struct rseq_area *rseq;
	long r = -1;

	init_full(1);
	rseq = ring_rseq_area();
	for (uint32_t size = 20; size <= 256 && r != 0; size++)
		r = syscall(SYS_rseq, rseq, size, 1, 0x53053053);
	if (r != 0)
		rseq->cpu_id = UINT32_MAX;
	for (int i = 0; i < 100; i++)
		if (harness_emit(2, 0, BODY))
			defect(DEFECT_LOST, "recorded without rseq");
	if (test_line(0, 0)->lost[LOST_NORSEQ] != 100)
		defect(DEFECT_COUNT, "lost %u", test_line(0, 0)->lost[LOST_NORSEQ]);
	harness_snapshot(true);
}

/* The daemon dies with pins and reclaims half done; the next one takes the pool over. */
static void case_daemon_dies(void)
{
	struct pool_geometry g;
	uint64_t pinned, s;
	int status, fd;
	pid_t pid;

	init_full(1);
	g = test_pool.geometry;
	pid = fork();
	if (pid == 0) {
		for (uint32_t i = 0; i < 6; i++)
			ring_pin(&test_pool, i, test_state(i), &pinned);
		for (uint32_t i = 8; i < 12; i++)
			ring_reclaim(&test_pool, i, test_state(i));
		kill(getpid(), SIGKILL);
	}
	waitpid(pid, &status, 0);
	emit_switches(2, 2 * N_SMALL);
	fd = dup(test_pool.fd);
	ring_pool_fini(&test_pool);
	if (ring_pool_open(&test_pool, fd, &g, 1) != 0) {
		defect(DEFECT_WEDGED, "cannot open the pool again");
		return;
	}
	for (uint32_t i = 0; i < test_pool.n_subs; i++) {
		s = test_state(i);
		if (state_kind(s) == SUB_PINNED && ring_unpin(&test_pool, i, s) != 0)
			defect(DEFECT_PINNED, "cannot unpin");
		if (state_kind(s) == SUB_ABSENT &&
			(ring_punch(&test_pool, i) != 0 || ring_grant(&test_pool, i, 0) != 0))
			defect(DEFECT_WEDGED, "cannot punch and grant again");
	}
	emit_switches(2, 2 * N_SMALL);
	if (harness_snapshot(true) != N_SMALL)
		defect(DEFECT_LOST, "not all sub-buffers came back");
}

/* -------------------------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {
		{ "scan-sleeps", case_scan_sleeps },
		{ "stale-end", case_stale_end },
		{ "small-record", case_small_record },
		{ "aba", case_aba },
		{ "next", case_next },
		{ "next-state", case_next_state },
		{ "retire", case_retire },
		{ "copy-raced", case_copy_raced },
		{ "daemon-raced", case_daemon_raced },
		{ "oversize", case_oversize },
		{ "wrap", case_wrap },
		{ "ties", case_ties },
		{ "step-back", case_step_back },
		{ "heal", case_heal },
		{ "single-step", case_single_step },
		{ "vfork", case_vfork },
		{ "fork", case_fork },
		{ "unregistered", case_unregistered },
		{ "daemon-dies", case_daemon_dies },
	};
	const char *must_find = NULL;

	if (argc > 2 && strncmp(argv[2], "must-find=", 10) == 0)
		must_find = argv[2] + 10;
	for (size_t i = 0; argc > 1 && i < sizeof(cases) / sizeof(*cases); i++) {
		if (strcmp(cases[i].name, argv[1]) == 0) {
			cases[i].run();
			return harness_finish(must_find);
		}
	}
	fprintf(stderr, "which case?\n");
	return 2;
}
