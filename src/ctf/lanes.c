/* SPDX-License-Identifier: MIT */

/*
 * Lanes: see lanes.h. Two sweeps over the spans by begin. The first keeps the set of those that
 * overlap here, and marks the smallest when it grows too large; so the second, which puts each of
 * the others into the free lane that ended last, never needs more than max_lanes. All scans are
 * linear in the lanes, which are a few hundred.
 */

#include "ctf/lanes.h"

#include <errno.h>
#include <stdlib.h>

static int order_compare(const void *a, const void *b, void *arg)
{
	const struct ctf_span *spans = arg;
	uint32_t ia = *(const uint32_t *)a, ib = *(const uint32_t *)b;
	const struct ctf_span *x = &spans[ia], *y = &spans[ib];

	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	if (x->end != y->end)
		return x->end < y->end ? -1 : 1;
	return ia < ib ? -1 : 1;
}

/* Marks what has to be merged. set: room for max + 1. */
static void mark_merged(
	struct ctf_span *spans, const uint32_t *order, uint32_t n, uint32_t max, uint32_t *set)
{
	uint32_t n_set = 0;

	for (uint32_t i = 0; i < n; i++) {
		struct ctf_span *s = &spans[order[i]];
		uint32_t kept = 0, small = 0;

		s->lane = 0;
		for (uint32_t k = 0; k < n_set; k++)
			if (spans[set[k]].end > s->begin)
				set[kept++] = set[k];
		set[kept] = order[i];
		n_set = kept + 1;
		if (n_set <= max)
			continue;
		for (uint32_t k = 1; k < n_set; k++)
			if (spans[set[k]].size < spans[set[small]].size)
				small = k;
		spans[set[small]].lane = CTF_LANE_MERGED;
		set[small] = set[--n_set];
	}
}

int ctf_lanes_plan(struct ctf_span *spans, uint32_t *order, uint32_t n, uint32_t max_lanes)
{
	uint32_t *set = calloc((size_t)max_lanes + 1, sizeof(*set));
	uint64_t *ends = calloc((size_t)max_lanes + 1, sizeof(*ends));
	uint32_t n_lanes = 0;

	if (!set || !ends) {
		free(set);
		free(ends);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < n; i++)
		order[i] = i;
	qsort_r(order, n, sizeof(*order), order_compare, spans);
	mark_merged(spans, order, n, max_lanes, set);
	for (uint32_t i = 0; i < n; i++) {
		struct ctf_span *s = &spans[order[i]];
		uint32_t best = n_lanes;

		if (s->lane == CTF_LANE_MERGED)
			continue;
		for (uint32_t l = 0; l < n_lanes; l++)
			if (ends[l] <= s->begin && (best == n_lanes || ends[l] > ends[best]))
				best = l;
		if (best == n_lanes)
			n_lanes++;
		ends[best] = s->end;
		s->lane = best;
	}
	free(set);
	free(ends);
	return (int)n_lanes;
}
