/* SPDX-License-Identifier: MIT */
/* Which packet goes where in which file: see writer.h. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ctf/lanes.h"
#include "ctf/packet.h"
#include "daemon/snapshot/writer.h"

uint64_t writer_packet_end(const struct snapshot *sn, const struct snapshot_packet *k)
{
	return k->k.current ? sn->now : k->k.end_ts;
}

uint32_t writer_packet_size(const struct snapshot_packet *k)
{
	return CTF_HEAD_PROCESS + k->k.size - SUB_HEADER_SIZE;
}

/* Whether a packet is for the trace; else its outcome is known, but for those that are old. */
static bool wanted(struct writer *w, struct snapshot_packet *k)
{
	const struct snapshot *sn = w->sn;
	struct look l;

	if (k->outcome != PACKET_LISTED)
		return false;
	if (k->k.size == 0) {
		k->outcome = PACKET_REFUSED;
		k->reason = LEFT_BAD_HEADER;
		return false;
	}
	if ((k->stored && k->stored->last_ts < sn->keep_since) ||
		(!k->open && k->k.end_ts < sn->keep_since) ||
		(k->maybe_old && writer_load(w, k, writer_copy(w), 0, &l) && l.n == 0))
		k->outcome = PACKET_OLD;
	return k->outcome == PACKET_LISTED;
}

/* Gives every packet of order (by begin) its place. */
static void place(struct writer *w)
{
	for (uint32_t i = 0; i < w->n_order; i++) {
		struct snapshot_packet *k = &w->sn->packets[w->order[i]];
		const struct snapshot_process *p = &w->sn->processes[k->process];
		struct lane *l;

		if (k->lane == CTF_LANE_MERGED) {
			w->merged_bytes += k->k.size;
			continue;
		}
		l = &w->lanes[k->lane];
		if (l->n == 0 && snapshot_sum(p->lost, N_LOST_REASONS) > 0) {
			l->starter = true;
			l->n = 1;
			l->size = CTF_HEAD_PROCESS;
		}
		k->seq = l->n++;
		k->offset = l->size;
		l->size += writer_packet_size(k);
	}
}

int writer_plan(struct writer *w)
{
	struct snapshot *sn = w->sn;
	struct ctf_span *spans;
	uint32_t *order;
	int r = 0;

	w->order = calloc(sn->n_packets + 1, sizeof(*w->order));
	w->lanes = calloc(LANES_MAX, sizeof(*w->lanes));
	spans = calloc(sn->n_packets + 1, sizeof(*spans));
	order = calloc(sn->n_packets + 1, sizeof(*order));
	if (!w->order || !w->lanes || !spans || !order) {
		r = -ENOMEM;
		goto out;
	}
	for (uint32_t i = 0; i < sn->n_packets; i++) {
		struct snapshot_packet *k = &sn->packets[i];
		uint64_t end = writer_packet_end(sn, k);

		if (!wanted(w, k))
			continue;
		k->begin = k->k.begin_ts > sn->keep_since ? k->k.begin_ts : sn->keep_since;
		if (k->begin > end)
			k->begin = end;
		k->planned = true;
		spans[w->n_order] = (struct ctf_span){ k->begin, end, writer_packet_size(k), 0 };
		w->order[w->n_order++] = i;
	}
	r = ctf_lanes_plan(spans, order, w->n_order, LANES_MAX);
	if (r < 0)
		goto out;
	w->n_lanes = (uint32_t)r;
	for (uint32_t i = 0; i < w->n_order; i++)
		sn->packets[w->order[i]].lane = spans[i].lane;
	for (uint32_t i = 0; i < w->n_order; i++)
		order[i] = w->order[order[i]];
	memcpy(w->order, order, w->n_order * sizeof(*order));
	place(w);
	r = 0;
out:
	free(spans);
	free(order);
	return r;
}
