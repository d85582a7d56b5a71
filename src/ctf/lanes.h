/* SPDX-License-Identifier: MIT */
#ifndef VARVE_CTF_LANES_H
#define VARVE_CTF_LANES_H

/*
 * Which packet goes into which stream file. A reader holds all files of a trace open, so there may
 * be few; and the packets of a file may not overlap in time. So packets that do not overlap share
 * a file, a *lane*, best those of one stream:
 *
 *   lane 0   [==A1==][===A2===][=A3=]      [==C1==]
 *   lane 1      [====B1====][=======B2========]
 *
 * Where more packets overlap than there may be lanes, the smallest of them are marked for merging
 * (merge.h).
 */

#include <stdint.h>

#define CTF_LANE_MERGED UINT32_MAX

struct ctf_span {
	uint64_t begin, end; /* begin <= end */
	uint32_t size;
	uint32_t lane; /* result: number of the lane, or CTF_LANE_MERGED */
};

/*
 * Fills order (n numbers, the caller's) with the indexes of spans by begin, then end, and gives
 * each span its lane of at most max_lanes. Returns the number of lanes used, or -ENOMEM. In a
 * lane, the spans in the order of order are those of its file.
 */
int ctf_lanes_plan(struct ctf_span *spans, uint32_t *order, uint32_t n, uint32_t max_lanes);

#endif
