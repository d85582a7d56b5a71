/* SPDX-License-Identifier: MIT */
/* Faults: sizes, clocks, rubbish in the pool, and what debuggers, forks and deaths do to a writer. */

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ring/race/directed.h"

#ifdef RING_TEST_CLOCK_STEPS
uint64_t ring_test_clock_step;
#endif

/* --- sizes, clocks -------------------------------------------------------------------------------- */

void case_oversize(void)
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
void case_wrap(void)
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
void case_ties(void)
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
void case_step_back(void)
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
void case_heal(void)
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
void case_single_step(void)
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
void case_vfork(void)
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
void case_fork(void)
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
void case_unregistered(void)
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
void case_daemon_dies(void)
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
