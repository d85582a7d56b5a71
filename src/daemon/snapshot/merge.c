/* SPDX-License-Identifier: MIT */
/*
 * Packets that have no lane, merged by time into a few files: see ctf/merge.h. As many as fit into
 * the arena make a group, and a group makes a file.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctf/lanes.h"
#include "ctf/merge.h"
#include "ctf/metadata.h"
#include "ctf/packet.h"
#include "daemon/programs/process.h"
#include "daemon/snapshot/writer.h"

#define MERGED_STREAM(g) (1000u + (g)) /* stream instances of merged files */

struct group {
	struct writer *w;
	uint32_t number; /* of its file, in w->merged */
	uint64_t at;	 /* bytes sent */
};

/* A packet of a merged file is ready. The file is announced with its first, so none is ever
 * empty; and begins with an empty packet, so that losses in the next can be told. */
static int group_out(void *arg, const void *packet, size_t len)
{
	struct group *g = arg;
	struct writer *w = g->w;
	struct merged_file *m = &w->merged[g->number];

	if (m->file < 0) {
		struct ctf_packet c = { .uuid = w->sn->trace.uuid,
			.stream = MERGED_STREAM(g->number),
			.content = CTF_HEAD_MERGED,
			.size = CTF_HEAD_MERGED };
		uint8_t head[CTF_HEAD_MERGED];
		char name[32];

		memcpy(&c.ts_begin, (const uint8_t *)packet + CTF_BEGIN_OFF, sizeof(c.ts_begin));
		c.ts_end = c.ts_begin;
		ctf_packet_head_merged(head, &c);
		snprintf(name, sizeof(name), "ctf/merged_%02u", g->number);
		m->file = sink_file(&w->sink, name, FRAME_SIZE_UNKNOWN);
		if (m->file < 0)
			return m->file;
		sink_frame(&w->sink, FRAME_DATA, (uint32_t)m->file, 0, head, sizeof(head));
		g->at = sizeof(head);
	}
	m->last = g->at;
	g->at += len;
	return sink_frame(&w->sink, FRAME_DATA, (uint32_t)m->file, m->last, packet, len);
}

/* Loads and merges packets from order[i] on, as many as fit into the arena. Returns where it
 * stopped, or -errno. */
static int64_t merge_group(struct writer *w, uint32_t i, uint8_t *arena, uint64_t room,
	struct ctf_merge_source *sources, uint32_t number)
{
	struct group g = { .w = w, .number = number };
	struct look who = { .w = w };
	struct ctf_merge m = { w->sn->trace.uuid, MERGED_STREAM(number), 1, writer_body_len, &who,
		group_out, &g, writer_copy(w) };
	uint64_t used = 0;
	uint32_t n = 0;
	int r;

	w->merged[number].file = -1;
	for (; i < w->n_order; i++) {
		struct snapshot_packet *k = &w->sn->packets[w->order[i]];
		const struct process *p = w->sn->processes[k->process].process;
		struct look l;

		if (k->lane != CTF_LANE_MERGED)
			continue;
		if (used + k->k.size > room)
			break;
		if (!writer_load(w, k, arena + used, 1u << CTF_CLASS_MERGED, &l))
			continue;
		writer_keep(k, &l);
		k->seq = number; /* which merged file: for what is told at the end */
		sources[n] = (struct ctf_merge_source){ arena + used + l.from, k->k.size - l.from,
			k->begin, k->k.stream, (uint32_t)p->pid, p->uid, "" };
		memcpy(sources[n++].name, p->name, sizeof(p->name));
		used += k->k.size;
	}
	r = ctf_merge(&m, sources, n);
	return r < 0 ? r : i;
}

int writer_merge(struct writer *w)
{
	uint64_t room = w->merged_bytes / GROUPS_MAX;
	struct ctf_merge_source *sources;
	uint8_t *arena;
	int64_t i = 0;

	if (w->merged_bytes == 0)
		return 0;
	if (room < 4 * w->copy_room) /* so that a group is three quarters full at least */
		room = 4 * w->copy_room;
	arena = malloc(room);
	sources = calloc(room / SUB_HEADER_SIZE, sizeof(*sources));
	if (!arena || !sources)
		i = -ENOMEM;
	while (i >= 0 && i < w->n_order && w->n_groups < 2 * GROUPS_MAX)
		i = merge_group(w, (uint32_t)i, arena, room, sources, w->n_groups++);
	free(arena);
	free(sources);
	return i < 0 ? (int)i : 0;
}
