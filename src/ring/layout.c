/* SPDX-License-Identifier: MIT */
/* The pool's geometry: what is computed rarely. All that is computed often is inline in layout.h. */

#include "ring/layout.h"

bool geometry_valid(const struct pool_geometry *g)
{
	uint64_t region, n_subs = 0, lines;

	if (g->region_shift < 20 || g->region_shift > 30)
		return false;
	if (g->n_streams == 0 || g->n_streams > POOL_STREAMS_MAX)
		return false;
	if (g->n_classes == 0 || g->n_classes > POOL_N_CLASSES_MAX)
		return false;
	region = UINT64_C(1) << g->region_shift;
	for (uint32_t c = 0; c < g->n_classes; c++) {
		uint32_t shift = g->class_shift[c];

		if (shift < 12 || shift > g->region_shift)
			return false;
		if (c > 0 && shift <= g->class_shift[c - 1])
			return false;
		if (g->n_subs[c] > region >> shift)
			return false;
		n_subs += g->n_subs[c];
	}
	if (n_subs == 0)
		return false;
	/* The table and all lines lie in region 0. No sum here can exceed 40 bits. */
	lines = (uint64_t)POOL_N_CHANNELS * g->n_streams * sizeof(struct stream_line);
	return POOL_TABLE_OFF + n_subs * sizeof(struct sub_entry) + POOL_PAGE + lines <= region;
}
