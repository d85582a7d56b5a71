/* SPDX-License-Identifier: MIT */
/*
 * Races and faults made on purpose, one per case: what happens between two steps of a writer happens
 * in a hook there (ring/inject.h), on the same CPU, as it would while that writer sleeps.
 *
 *	directed CASE [must-find=DEFECT]
 */

#include <stdio.h>
#include <string.h>

#include "ring/race/directed.h"

struct hook hook;

void ring_inject(enum ring_inject_point point)
{
	if (!hook.run || hook.running || point != hook.point || --hook.countdown > 0)
		return;
	hook.running = true;
	hook.run();
	hook.running = false;
	hook.run = NULL;
}

void hook_set(enum ring_inject_point point, int nth, void (*run)(void))
{
	hook.point = point;
	hook.countdown = nth;
	hook.run = run;
}

void hook_done(void)
{
	if (hook.run)
		defect(DEFECT_WEDGED, "the race did not happen");
}

struct stream_line *line(void)
{
	return test_line(0, TEST_CPU);
}

uint32_t current_idx(uint32_t stream)
{
	return geometry_idx(&test_pool.geometry, pos_off(test_line(0, stream)->pos));
}

void fill(uint32_t slot, uint32_t body)
{
	do
		harness_emit(slot, 0, TEST_BODY_MIN);
	while (ring_has_room(&test_writer, line()->pos, RECORD_COMPACT + body));
}

void emit_switches(uint32_t slot, uint32_t n)
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

void check_one_per_gen(void)
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

void init_full(uint32_t flight)
{
	pin_to_cpu(TEST_CPU);
	harness_init(RING_RSEQ, flight, GEN_MASK - 20, 1);
	harness_grant_all(1);
	emit_switches(1, 3 * N_SMALL);
}

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
