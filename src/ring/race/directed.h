/* SPDX-License-Identifier: MIT */
#ifndef VARVE_RING_RACE_DIRECTED_H
#define VARVE_RING_RACE_DIRECTED_H

/* What the directed cases share: a hook in the ring's code, and steps of one stream on one CPU. */

#include "ring/race/harness.h"

#define TEST_CPU 0
#define BODY	 40u

/* Called once, at the n-th time that point is reached outside of a hook. */
extern struct hook {
	enum ring_inject_point point;
	int countdown;
	void (*run)(void);
	bool running;
} hook;

void hook_set(enum ring_inject_point point, int nth, void (*run)(void));
/* It is a defect if the hook was not called. */
void hook_done(void);

/* A pool of small sub-buffers, full of records of this CPU's stream, its gens about to wrap. */
void init_full(uint32_t flight);
struct stream_line *line(void);
uint32_t current_idx(uint32_t stream);
/* Records until there is no room for another of body bytes, but still for a small one. */
void fill(uint32_t slot, uint32_t body);
/* Records until the stream switched n times. */
void emit_switches(uint32_t slot, uint32_t n);
void check_one_per_gen(void);

/* directed-races.c */
void case_scan_sleeps(void);
void case_stale_end(void);
void case_small_record(void);
void case_aba(void);
void case_next(void);
void case_next_state(void);
void case_retire(void);
void case_copy_raced(void);
void case_daemon_raced(void);

/* directed-faults.c */
void case_oversize(void);
void case_wrap(void);
void case_ties(void);
void case_step_back(void);
void case_heal(void);
void case_single_step(void);
void case_vfork(void);
void case_fork(void);
void case_unregistered(void);
void case_daemon_dies(void);

#endif
