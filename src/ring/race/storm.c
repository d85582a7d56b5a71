/* SPDX-License-Identifier: MIT */
/*
 * Everything at once, at random: writers of several processes in one pool, with threads, signal
 * handlers and changing CPUs, killed and stopped at any instruction; a thread that retires streams,
 * killed as well; a daemon that grants, reclaims, pins and takes snapshots, killed as well.
 *
 *	storm flight|discard|threads SECONDS [gen0=N] [keep-order]
 *
 * flight: the oldest is overwritten; each snapshot must be readable, and at the end the newest
 * packet of each stream ends at its count. keep-order: no pins and no reclaims but of the oldest,
 * then a snapshot may have no hole in the middle. discard: every record is taken once, and all
 * acknowledged ones must be there. threads: as discard, lock-owned streams of one process.
 */

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ring/race/harness.h"

#define N_WRITERS	  3
#define SLOTS_PER_PROCESS 4
#define N_PROCESSES	  (N_WRITERS + 1) /* the last one retires streams */

static bool flight, threads_only, keep_order;
static uint32_t gen0;
static uint64_t n_kills, n_stops, n_daemon_kills;

/* --- writers -------------------------------------------------------------------------------------- */

static _Thread_local uint32_t handler_slot;
static _Thread_local uint64_t handler_random;
static _Thread_local volatile bool in_handler;

static void on_alarm(int sig)
{
	if (handler_slot == 0 || in_handler)
		return;
	in_handler = true;
	for (int i = 0; i < 3; i++)
		harness_emit_random(handler_slot, &handler_random);
	in_handler = false;
}

struct thread {
	uint32_t slot;
	bool naps;
};

static void *writer_thread(void *arg)
{
	const struct thread *t = arg;
	uint64_t random = ring_clock(TRACE_CLOCK_MONOTONIC) * 3 | 1, n = 0;

	handler_random = random * 5 | 1;
	handler_slot = t->slot + 1;
	while (!harness->stop) {
		uint64_t r;

		harness_emit_random(t->slot, &random);
		if (++n % 256 != 0)
			continue;
		r = random_next(&random);
		if (t->naps && r % 4 == 0)
			usleep((r >> 8) % 2000);
		else if (r % 3 == 0)
			sched_yield();
		if (n % 4096 == 0) {
			cpu_set_t set;

			CPU_ZERO(&set);
			CPU_SET((r >> 20) % 2, &set);
			if (r >> 30 & 1)
				CPU_SET(!((r >> 20) % 2), &set);
			sched_setaffinity(0, sizeof(set), &set);
		}
	}
	handler_slot = 0;
	return NULL;
}

static void start_alarms(uint32_t slot)
{
	struct sigaction action = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
	struct itimerval every = { { 0, 150 + slot % 7 * 50 }, { 0, 200 } };

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
}

static void run_writer(uint32_t slot)
{
	struct thread t[2] = { { slot, false }, { slot + 2, true } };
	pthread_t id;

	die_with_parent();
	start_alarms(slot);
	if (pthread_create(&id, NULL, writer_thread, &t[1]) != 0)
		_exit(1);
	writer_thread(&t[0]);
	_exit(0);
}

/* --- the daemon ------------------------------------------------------------------------------------ */

static void run_retirer(void)
{
	uint64_t random = ring_clock(TRACE_CLOCK_TSC) | 1;

	die_with_parent();
	for (;;) {
		uint32_t cpu = random_next(&random) % 2;

		pin_to_cpu((int)cpu);
		for (uint64_t i = random_next(&random) % 6; i > 0; i--) {
			uint32_t ch = random_next(&random) % N_TEST_CH;
			uint64_t pos = test_line(ch, cpu)->pos;

			if (ring_retire(&test_pool, ch, cpu, pos, RING_RSEQ, TRACE_CLOCK_TSC) == 0)
				STAT_ADD(retirements, 1);
		}
		usleep(random_next(&random) % 300);
	}
}

/* Reads a pinned sub-buffer twice: nobody writes there, and its contents are whole. */
static void pin_and_check(uint32_t idx, uint64_t s, uint64_t *random)
{
	static uint8_t a[LARGE_SIZE], b[LARGE_SIZE];
	struct ring_packet k = {
		.idx = idx, .ch = state_ch(s), .stream = state_cpu(s), .gen = state_gen(s)
	};
	uint32_t size = geometry_sub_size(&test_pool.geometry, idx);
	uint32_t off = geometry_sub_off(&test_pool.geometry, idx);
	struct checked c;
	uint64_t close;

	if (ring_pin(&test_pool, idx, s, &k.state) != 0)
		return;
	close = test_entry(idx)->close;
	k.begin_ts = test_entry(idx)->begin_ts;
	k.end_ts = test_entry(idx)->end_ts;
	k.size = pair_low(close);
	if (close == 0) {
		STAT_ADD(empty, 1);
	} else if (pair_gen(close) != k.gen) {
		defect(DEFECT_CLOSE, "idx %u gen %u close %llx", idx, k.gen,
			(unsigned long long)close);
	} else if (pread(test_pool.fd, a, size, off) == size &&
		   harness_check(&k, a, false, &c) == 0) {
		harness_chain(&k, &c);
		if (random_next(random) % 4 == 0)
			usleep(random_next(random) % 300);
		if (pread(test_pool.fd, b, size, off) != size || memcmp(a, b, size) != 0)
			defect(DEFECT_PINNED, "idx %u gen %u", idx, k.gen);
	}
	STAT_ADD(pins, 1);
	if (ring_unpin(&test_pool, idx, k.state) != 0)
		defect(DEFECT_PINNED, "idx %u left its pin", idx);
}

static void check_absent(uint32_t idx)
{
	static uint8_t buf[LARGE_SIZE];
	uint32_t size = geometry_sub_size(&test_pool.geometry, idx);

	if (pread(test_pool.fd, buf, size, geometry_sub_off(&test_pool.geometry, idx)) != size)
		return;
	for (uint32_t i = 0; i < size; i++) {
		if (buf[i]) {
			defect(DEFECT_PINNED, "absent idx %u was written", idx);
			return;
		}
	}
}

/* The one that a writer would take: what the balancer takes back. */
static uint32_t oldest_of(uint32_t ch, uint64_t *ret_state)
{
	uint32_t best = SUB_NONE;
	uint64_t best_ts = 0;

	for (uint32_t i = 0; i < test_pool.n_subs; i++) {
		uint64_t s = test_state(i);

		if (state_ch(s) != ch || !test_retired(i, s))
			continue;
		if (best == SUB_NONE || test_entry(i)->begin_ts < best_ts) {
			best = i;
			best_ts = test_entry(i)->begin_ts;
			*ret_state = s;
		}
	}
	for (uint32_t i = 0; best != SUB_NONE && i < test_pool.n_subs; i++) {
		uint64_t s = test_state(i);

		if (state_kind(s) == SUB_ACTIVE && state_ch(s) == ch &&
			state_cpu(s) == state_cpu(*ret_state) &&
			gen_after(state_gen(*ret_state), state_gen(s))) {
			best = i;
			*ret_state = s;
		}
	}
	return best;
}

static void reclaim(uint32_t idx, uint64_t s, double *due, uint64_t *random)
{
	bool claimed = state_kind(s) == SUB_ACTIVE;
	int r = claimed ? ring_reclaim(&test_pool, idx, s) : ring_revoke(&test_pool, idx);

	if (r != 0)
		return;
	ring_punch(&test_pool, idx);
	*due = seconds_now() + 1e-6 * (double)(random_next(random) % 2000);
	STAT_ADD(reclaims, 1);
}

/* With memory, or as a promise that a writer makes good. */
static bool give(uint32_t idx, uint64_t *random)
{
	uint64_t r = random_next(random);

	return (r & 1 ? ring_grant(&test_pool, idx, (r >> 8) % N_TEST_CH)
		      : ring_promise(&test_pool, idx, (r >> 8) % N_TEST_CH)) == 0;
}

static void run_flight_daemon(void)
{
	static double due[N_SUBS];
	uint64_t random = ring_clock(TRACE_CLOCK_MONOTONIC) | 1;

	die_with_parent();
	for (uint32_t i = 0; i < test_pool.n_subs; i++) {
		uint64_t s = test_state(i);

		if (state_kind(s) == SUB_PINNED)
			ring_unpin(&test_pool, i, s);
		else if (state_kind(s) == SUB_ABSENT)
			ring_punch(&test_pool, i);
	}
	while (!harness->stop) {
		uint32_t idx = random_next(&random) % test_pool.n_subs, op;
		uint64_t s = test_state(idx);

		op = random_next(&random) % 16;
		if (state_kind(s) == SUB_ABSENT) {
			if (seconds_now() < due[idx])
				continue;
			check_absent(idx);
			if (give(idx, &random))
				STAT_ADD(grants, 1);
		} else if (op == 0) {
			if (keep_order)
				idx = oldest_of(random_next(&random) % N_TEST_CH, &s);
			if (idx != SUB_NONE)
				reclaim(idx, s, &due[idx], &random);
		} else if (op < 4 && !keep_order) {
			if (test_retired(idx, s))
				pin_and_check(idx, s, &random);
		} else if (op < 10) {
			harness_snapshot(keep_order);
		} else if (op == 15) {
			usleep(50);
		}
	}
	_exit(0);
}

static void run_discard_daemon(void)
{
	die_with_parent();
	while (!harness->stop)
		if (harness_consume_all() == 0)
			usleep(20);
	while (harness_consume_all() != 0)
		;
	harness_consume_current();
	_exit(0);
}

static pid_t start_daemon(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		if (flight)
			run_flight_daemon();
		run_discard_daemon();
	}
	return pid;
}

/* --- the storm ------------------------------------------------------------------------------------- */

struct process {
	pid_t pid;
	bool stopped;
	double due;
};

static struct process processes[N_PROCESSES];
static uint32_t next_slot = SLOTS_PER_PROCESS;

static void start_process(int i)
{
	uint32_t slot = next_slot;
	pid_t pid = fork();

	if (pid == 0) {
		if (i < N_WRITERS)
			run_writer(slot);
		run_retirer();
	}
	processes[i].pid = pid;
	processes[i].stopped = false;
	next_slot += SLOTS_PER_PROCESS;
}

static void kill_process(int i)
{
	int status;

	kill(processes[i].pid, SIGKILL);
	waitpid(processes[i].pid, &status, 0);
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
		defect(DEFECT_WEDGED, "process %d ended with status %x", i, status);
	n_kills++;
}

/* Calls must return: records are made, or lost while the daemon does not get to run. */
static void check_progress(void)
{
	static uint64_t last[N_TEST_CH];

	for (uint32_t ch = 0; ch < N_TEST_CH; ch++) {
		uint64_t n = 0, lost[N_LOST_REASONS] = { 0 };

		for (uint32_t i = 0; i < N_STREAMS; i++) {
			n += ring_stream_records(&test_pool, ch, i, NULL);
			ring_stream_lost(&test_pool, ch, i, lost);
		}
		n += lost[LOST_NOBUF];
		if (n == last[ch])
			defect(DEFECT_WEDGED, "channel %u stands still", ch);
		last[ch] = n;
	}
}

static pid_t storm(double seconds, pid_t daemon)
{
	double start = seconds_now(), next_daemon_kill = start + 0.3, next_check = start + 2;
	uint64_t random = ring_clock(TRACE_CLOCK_MONOTONIC) | 1;

	while (seconds_now() - start < seconds && next_slot < N_SLOTS - 256) {
		uint64_t r = random_next(&random);
		int i = (int)(r % N_PROCESSES);
		double now = seconds_now();

		if (now > processes[i].due) {
			kill_process(i);
			start_process(i);
			processes[i].due =
				now + ((r >> 8) % 100 < 5 ? 0.2 : 4e-4 * (double)((r >> 16) % 12));
		} else if (processes[i].stopped) {
			kill(processes[i].pid, SIGCONT);
			processes[i].stopped = false;
		} else if ((r >> 24) % 100 < 20) {
			kill(processes[i].pid, SIGSTOP);
			processes[i].stopped = true;
			n_stops++;
		}
		if (flight && now > next_daemon_kill) {
			kill(daemon, SIGKILL);
			waitpid(daemon, NULL, 0);
			n_daemon_kills++;
			daemon = start_daemon();
			next_daemon_kill = now + 0.05 + 1e-3 * (double)((r >> 32) % 300);
		}
		if (now > next_check) {
			check_progress();
			next_check = now + 2;
		}
		usleep(50 + (unsigned int)(r >> 40) % 200);
	}
	return daemon;
}

/* All writers are dead: the newest packet of each stream ends exactly at its count, if it has one
 * left (a retired stream's may all have been taken by others). */
static void check_ends(void)
{
	static struct ring_packet list[N_SUBS];
	static uint8_t buf[LARGE_SIZE];

	for (uint32_t ch = 0; ch < N_TEST_CH; ch++) {
		uint64_t cuts[N_STREAMS], n_records[N_STREAMS], end[N_STREAMS] = { 0 };
		uint32_t n;

		for (uint32_t i = 0; i < N_STREAMS; i++)
			n_records[i] = ring_stream_records(&test_pool, ch, i, &cuts[i]);
		n = ring_list(&test_pool, ch, cuts, list);
		for (uint32_t i = 0; i < n; i++) {
			struct checked c;

			if (list[i].size == 0 || ring_copy(&test_pool, &list[i], buf) != 0 ||
				harness_check(&list[i], buf, false, &c) != 0)
				continue;
			if (c.n_after > end[list[i].stream])
				end[list[i].stream] = c.n_after;
		}
		for (uint32_t i = 0; i < N_STREAMS; i++)
			if (end[i] != 0 && end[i] != n_records[i])
				defect(DEFECT_COUNT,
					"stream %u.%u: count %llu, packets end at %llu", ch, i,
					(unsigned long long)n_records[i],
					(unsigned long long)end[i]);
	}
}

static void storm_of_processes(double seconds)
{
	pid_t daemon = start_daemon();

	for (int i = 0; i < N_PROCESSES; i++) {
		start_process(i);
		processes[i].due = seconds_now() + 0.002;
	}
	daemon = storm(seconds, daemon);
	for (int i = 0; i < N_PROCESSES; i++)
		kill_process(i);
	harness->stop = 1;
	waitpid(daemon, NULL, 0);
	if (flight)
		check_ends();
}

/* One process, more threads than streams, alarms in all of them. */
static void storm_of_threads(double seconds)
{
	struct thread t[5];
	pthread_t id[5];
	pid_t daemon = start_daemon();
	double end = seconds_now() + seconds;

	for (uint32_t i = 0; i < 5; i++) {
		t[i] = (struct thread){ next_slot, i & 1 };
		next_slot += SLOTS_PER_PROCESS;
		if (pthread_create(&id[i], NULL, writer_thread, &t[i]) != 0)
			exit(1);
	}
	start_alarms(0);
	while (seconds_now() < end) {
		for (uint32_t i = 0; i < N_STREAMS; i++)
			if (ring_retire(&test_pool, 0, i, test_line(0, i)->pos, RING_LOCK,
				    TRACE_CLOCK_MONOTONIC) == 0)
				STAT_ADD(retirements, 1);
		usleep(200);
	}
	setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL);
	harness->stop = 1;
	for (int i = 0; i < 5; i++)
		pthread_join(id[i], NULL);
	waitpid(daemon, NULL, 0);
	/* The daemon may have stopped before the last writer did. */
	while (harness_consume_all() != 0)
		;
}

int main(int argc, char **argv)
{
	double seconds = argc > 2 ? atof(argv[2]) : 5;
	uint64_t acked = 0, failed = 0, lost[N_LOST_REASONS] = { 0 }, committed;

	flight = argc > 1 && strcmp(argv[1], "flight") == 0;
	threads_only = argc > 1 && strcmp(argv[1], "threads") == 0;
	for (int i = 3; i < argc; i++) {
		keep_order |= strcmp(argv[i], "keep-order") == 0;
		if (strncmp(argv[i], "gen0=", 5) == 0)
			gen0 = (uint32_t)strtoul(argv[i] + 5, NULL, 0);
	}
	harness_init(threads_only ? RING_LOCK : RING_RSEQ, flight ? 3 : 0, gen0, 2);
	harness_grant_all(N_TEST_CH);
	if (threads_only)
		storm_of_threads(seconds);
	else
		storm_of_processes(seconds);
	committed = harness_committed();
	if (!flight && !threads_only)
		harness_check_accounts(next_slot);
	for (uint32_t i = 0; i < next_slot; i++) {
		acked += harness->slot[i].acked;
		failed += harness->slot[i].failed;
	}
	for (uint32_t ch = 0; ch < N_TEST_CH; ch++)
		for (uint32_t i = 0; i < N_STREAMS; i++)
			ring_stream_lost(&test_pool, ch, i, lost);
	/* Two threads and two handlers of each killed process may have committed one more each. */
	if (committed < acked || committed - acked > 4 * n_kills)
		defect(DEFECT_COUNT, "%llu committed, %llu acknowledged",
			(unsigned long long)committed, (unsigned long long)acked);
	printf("%s%s: %.0f s, %llu kills, %llu stops, %llu daemon kills; %llu acknowledged, %llu more "
	       "committed, %llu lost (nobuf %llu, retry %llu), %llu grants\n",
		argc > 1 ? argv[1] : "discard", keep_order ? " keep-order" : "", seconds,
		(unsigned long long)n_kills, (unsigned long long)n_stops,
		(unsigned long long)n_daemon_kills, (unsigned long long)acked,
		(unsigned long long)(committed - acked), (unsigned long long)failed,
		(unsigned long long)lost[LOST_NOBUF], (unsigned long long)lost[LOST_RETRY],
		(unsigned long long)harness->grants);
	return harness_finish(NULL);
}
