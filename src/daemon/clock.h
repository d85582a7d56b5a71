/* SPDX-License-Identifier: MIT */
#ifndef VARVE_DAEMON_CLOCK_H
#define VARVE_DAEMON_CLOCK_H

/*
 * The clock of all records, and its relation to the time of day.
 *
 * The frequency of a counter is measured against CLOCK_MONOTONIC_RAW from the daemon's start on: the
 * longer it runs, the better it is known. clock_map() gives one linear map; whoever converts more
 * than one time (a snapshot) uses one map for all.
 */

#include <stdint.h>
#include "ring/layout.h"

struct clock_state {
	enum trace_clock kind;
	uint64_t ticks0, raw0; /* read together at start */
	uint64_t freq_hz;      /* best known */
};

struct clock_map {
	enum trace_clock kind;
	uint64_t freq_hz;
	uint64_t ticks;	  /* at this value of the clock ... */
	uint64_t unix_ns; /* ... the time of day was this */
};

/* wanted 0: the best that this machine has. 0, or -ENOTSUP if it has not got it. */
int clock_init(struct clock_state *c, enum trace_clock wanted);
const char *clock_name(enum trace_clock kind); /* "tsc", "monotonic", "cntvct" */
/* -EINVAL if there is none of that name. */
int clock_parse(const char *name, enum trace_clock *ret_kind);

uint64_t clock_now(const struct clock_state *c);
void clock_map(struct clock_state *c, struct clock_map *ret);
/* Durations. */
uint64_t clock_ticks_of(const struct clock_state *c, uint64_t ns);
uint64_t clock_ns_of(const struct clock_state *c, uint64_t ticks);
/* ns of the Unix epoch; 0 for 0 ("never"). */
uint64_t clock_unix_ns(const struct clock_map *m, uint64_t ticks);

#endif
