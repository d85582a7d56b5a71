/* SPDX-License-Identifier: MIT */

/*
 * The worker of a snapshot. The sizes of all packets are known from the cut, so the plan comes
 * first: which packet goes where in which file. Then packets are copied, those that writers are in
 * first, then newest first, for writers take the oldest; each is checked and sent to its place. One
 * that is gone or bad becomes an empty packet of the planned size. What only the whole tells (events
 * discarded, and where the part without holes begins) is sent at the end, on top.
 *
 * One buffer holds one packet:   | room for heads | copy of the sub-buffer: its header, records |
 * and the CTF head is written so that it ends where the records to keep begin.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctf/lanes.h"
#include "ctf/merge.h"
#include "ctf/packet.h"
#include "ctf/record.h"
#include "daemon/daemon.h"
#include "daemon/pool.h"
#include "daemon/process.h"
#include "daemon/report.h"
#include "daemon/snapshot-data.h"
#include "daemon/snapshot-sink.h"

#define LANES_MAX	 440u /* with the merged files below 500: readers hold all open */
#define GROUPS_MAX	 40u  /* merged files, if groups were full; a third more at most */
#define HEAD_ROOM	 (CTF_HEAD_PROCESS - SUB_HEADER_SIZE)
#define MERGED_STREAM(g) (1000u + (g)) /* stream instances of merged files */

struct lane {
	uint64_t size; /* of the file, bytes */
	uint32_t n;    /* packets */
	bool starter;  /* an empty packet in front, so that losses in the first can be told */
};

/* A merged file, or what goes into one: a few of the packets that have no lane. */
struct group {
	struct writer *w;
	int file;
	uint32_t number;
	uint64_t at, last; /* bytes sent; where the last packet begins */
};

struct writer {
	struct snapshot *sn;
	struct sink sink;
	uint8_t *buffer; /* HEAD_ROOM, then the largest sub-buffer */
	uint8_t *seen;	 /* by event id from ids_first: 1 << stream class */
	struct lane *lanes;
	uint32_t n_lanes;
	uint32_t *order; /* indexes of packets */
	uint32_t n_order;
	uint64_t merged_bytes;
	uint32_t copy_room; /* for one copy; of the largest packet at least */
	uint32_t n_groups;
	struct {
		int file;
		uint64_t last; /* offset of the last packet */
	} groups[2 * GROUPS_MAX];
};

/* What a look at one verified copy found. */
struct look {
	struct writer *w;
	const uint8_t *copy;
	uint8_t seen;
	uint64_t since; /* keep nothing older */
	uint32_t n, trimmed, n_island;
	uint32_t from; /* offset of the first record to keep */
	uint64_t first_ts, last_ts;
};

static uint32_t body_len(void *arg, uint32_t id, const uint8_t *body, uint32_t avail)
{
	const struct snapshot *sn = ((struct look *)arg)->w->sn;
	const struct registry_event *e;

	if (id < sn->ids_first || id >= sn->ids_end)
		return 0;
	e = registry_get(sn->daemon->registry, id);
	return e ? ctf_body_len(e->layout, body, avail) : 0;
}

static void look_record(void *arg, const struct ring_record *r)
{
	struct look *l = arg;

	if (r->ts < l->since) {
		if (r->ts < l->w->sn->keep_since)
			l->trimmed++;
		else
			l->n_island++;
		l->from = (uint32_t)(r->body + r->body_len - l->copy);
		return;
	}
	if (l->n++ == 0)
		l->first_ts = r->ts;
	l->last_ts = r->ts;
	l->w->seen[r->id - l->w->sn->ids_first] |= l->seen;
}

/*
 * Copies a packet to copy, lets go of it, and checks the copy. True if it is good; else its outcome
 * is written down.
 */
static bool load(
	struct writer *w, struct snapshot_packet *k, uint8_t *copy, uint8_t seen, struct look *l)
{
	struct snapshot_process *p = &w->sn->processes[k->process];
	struct sub_header h;
	uint64_t last_ts;
	uint32_t n;
	int r = 0;

	*l = (struct look){ .w = w, .copy = copy, .seen = seen, .from = SUB_HEADER_SIZE };
	l->since = p->horizon > w->sn->keep_since ? p->horizon : w->sn->keep_since;
	if (k->early)
		memcpy(copy, k->early, k->k.size);
	else if (k->stored)
		memcpy(copy, &k->stored->header, k->k.size);
	else if (ring_copy(&p->pool->ring, &k->k, copy) != 0)
		r = 1 + LEFT_RACED;
	if (k->pinned)
		snapshot_unpin(w->sn, k);
	if (r == 0)
		r = ring_verify(&k->k, copy, w->sn->now, body_len, look_record, l, &n, &last_ts);
	k->header_good = r == 0 || r == 1 + LEFT_BAD_RECORD || r == 1 + LEFT_BAD_TIME;
	if (k->header_good) {
		memcpy(&h, copy, sizeof(h));
		k->n_before = h.n_before;
		k->lost = h.lost;
	}
	if (r != 0) {
		k->outcome = PACKET_REFUSED;
		k->reason = (uint8_t)(r - 1);
	}
	return r == 0;
}

static void keep(struct snapshot_packet *k, const struct look *l)
{
	k->outcome = PACKET_KEPT;
	k->n = l->n;
	k->trimmed = l->trimmed;
	k->bytes = k->k.size - l->from;
	k->first_ts = l->first_ts;
	k->last_ts = l->last_ts;
}

static void *copy_of(struct writer *w)
{
	return w->buffer + HEAD_ROOM;
}

/* --- plan ------------------------------------------------------------------------------------- */

static uint64_t end_of(const struct snapshot *sn, const struct snapshot_packet *k)
{
	return k->k.current ? sn->now : k->k.end_ts;
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
		(k->maybe_old && load(w, k, copy_of(w), 0, &l) && l.n == 0))
		k->outcome = PACKET_OLD;
	return k->outcome == PACKET_LISTED;
}

static uint32_t packet_size(const struct snapshot_packet *k)
{
	return CTF_HEAD_PROCESS + k->k.size - SUB_HEADER_SIZE;
}

static bool loses(const struct snapshot_process *p)
{
	uint64_t n = 0;

	for (int i = 0; i < N_LOST_REASONS; i++)
		n += p->lost[i];
	return n > 0;
}

/* Gives every packet of order (by begin) its place. */
static void place(struct writer *w)
{
	for (uint32_t i = 0; i < w->n_order; i++) {
		struct snapshot_packet *k = &w->sn->packets[w->order[i]];
		struct lane *l;

		if (k->lane == CTF_LANE_MERGED) {
			w->merged_bytes += k->k.size;
			continue;
		}
		l = &w->lanes[k->lane];
		if (l->n == 0 && loses(&w->sn->processes[k->process])) {
			l->starter = true;
			l->n = 1;
			l->size = CTF_HEAD_PROCESS;
		}
		k->seq = l->n++;
		k->offset = l->size;
		l->size += packet_size(k);
	}
}

static int plan(struct writer *w)
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
		uint64_t end = end_of(sn, k);

		if (!wanted(w, k))
			continue;
		k->begin = k->k.begin_ts > sn->keep_since ? k->k.begin_ts : sn->keep_since;
		if (k->begin > end)
			k->begin = end;
		k->planned = true;
		spans[w->n_order] = (struct ctf_span){ k->begin, end, packet_size(k), 0 };
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

/* --- lanes ------------------------------------------------------------------------------------ */

/* The first record's low 32 bits of time count from the begin: it is never left further behind than
 * the records that were left out in front of it. */
static struct ctf_packet head_of(const struct writer *w, const struct snapshot_packet *k)
{
	const struct snapshot_process *p = &w->sn->processes[k->process];
	const struct process *who = p->process;
	uint64_t end = end_of(w->sn, k), begin = k->begin > p->horizon ? k->begin : p->horizon;

	return (struct ctf_packet){
		.uuid = w->sn->trace.uuid,
		.stream = k->lane,
		.ts_begin = begin < end ? begin : end,
		.ts_end = end,
		.content = CTF_HEAD_PROCESS,
		.size = packet_size(k),
		.seq = k->seq,
		.cpu = k->k.stream,
		.pid = (uint32_t)who->pid,
		.uid = who->uid,
		.gen = k->k.gen,
		.name = who->name,
	};
}

static void announce_lanes(struct writer *w)
{
	uint64_t n_bytes = w->merged_bytes;
	uint8_t head[CTF_HEAD_PROCESS];
	char name[32];

	for (uint32_t l = 0; l < w->n_lanes; l++)
		n_bytes += w->lanes[l].size;
	sink_frame(&w->sink, FRAME_PLAN, w->n_lanes + 3, n_bytes, NULL, 0);
	for (uint32_t l = 0; l < w->n_lanes; l++) {
		snprintf(name, sizeof(name), "ctf/lane_%03u", l);
		sink_file(&w->sink, name, w->lanes[l].size);
	}
	for (uint32_t i = 0; i < w->n_order; i++) {
		const struct snapshot_packet *k = &w->sn->packets[w->order[i]];
		struct ctf_packet c;

		if (k->lane == CTF_LANE_MERGED || k->seq != 1 || !w->lanes[k->lane].starter)
			continue;
		c = head_of(w, k);
		c.ts_end = c.ts_begin;
		c.size = c.content;
		c.seq = 0;
		ctf_packet_head(head, &c);
		sink_frame(&w->sink, FRAME_DATA, k->lane, 0, head, sizeof(head));
	}
}

/* With send false, only its outcome is written down. */
static void send_packet(struct writer *w, struct snapshot_packet *k, bool send)
{
	struct ctf_packet c = head_of(w, k);
	uint8_t *copy = copy_of(w), *head = w->buffer;
	struct look l;

	if (load(w, k, copy, 1u << CTF_CLASS_PROCESS, &l)) {
		keep(k, &l);
		c.content += k->k.size - l.from;
		head = copy + l.from - CTF_HEAD_PROCESS;
	}
	if (!send)
		return;
	ctf_packet_head(head, &c);
	sink_frame(&w->sink, FRAME_DATA, k->lane, k->offset, head, c.content);
}

static int newest_first(const void *a, const void *b, void *arg)
{
	const struct snapshot_packet *packets = arg, *x = &packets[*(const uint32_t *)a],
				     *y = &packets[*(const uint32_t *)b];

	if (x->k.current != y->k.current)
		return x->k.current ? -1 : 1;
	if (x->k.end_ts != y->k.end_ts)
		return x->k.end_ts > y->k.end_ts ? -1 : 1;
	return 0;
}

/* --- merged files ----------------------------------------------------------------------------- */

/* A packet of a merged file is ready. The file is announced with its first, so none is ever
 * empty; and begins with an empty packet, so that losses in the next can be told. */
static int group_out(void *arg, const void *packet, size_t len)
{
	struct group *g = arg;
	struct writer *w = g->w;

	if (g->file < 0) {
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
		g->file = sink_file(&w->sink, name, FRAME_SIZE_UNKNOWN);
		if (g->file < 0)
			return g->file;
		sink_frame(&w->sink, FRAME_DATA, (uint32_t)g->file, 0, head, sizeof(head));
		g->at = sizeof(head);
	}
	g->last = g->at;
	g->at += len;
	return sink_frame(&w->sink, FRAME_DATA, (uint32_t)g->file, g->last, packet, len);
}

/* Loads and merges packets from order[i] on, as many as fit into the arena. Returns where it
 * stopped, or -errno. */
static int64_t merge_group(struct writer *w, uint32_t i, uint8_t *arena, uint64_t room,
	struct ctf_merge_source *sources, uint32_t number)
{
	struct group g = { .w = w, .file = -1, .number = number };
	struct look who = { .w = w };
	struct ctf_merge m = { w->sn->trace.uuid, MERGED_STREAM(number), 1, body_len, &who,
		group_out, &g, copy_of(w) };
	uint64_t used = 0;
	uint32_t n = 0;
	int r;

	for (; i < w->n_order; i++) {
		struct snapshot_packet *k = &w->sn->packets[w->order[i]];
		const struct process *p = w->sn->processes[k->process].process;
		struct look l;

		if (k->lane != CTF_LANE_MERGED)
			continue;
		if (used + k->k.size > room)
			break;
		if (!load(w, k, arena + used, 1u << CTF_CLASS_MERGED, &l))
			continue;
		keep(k, &l);
		k->seq = number; /* which merged file: for what is told at the end */
		sources[n] = (struct ctf_merge_source){ arena + used + l.from, k->k.size - l.from,
			k->begin, k->k.stream, (uint32_t)p->pid, p->uid, "" };
		memcpy(sources[n++].name, p->name, sizeof(p->name));
		used += k->k.size;
	}
	r = ctf_merge(&m, sources, n);
	w->groups[number].file = g.file;
	w->groups[number].last = g.last;
	return r < 0 ? r : i;
}

static int merge_all(struct writer *w)
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

/* --- what is known at the end ----------------------------------------------------------------- */

/* Old packets are not copied: their headers say how many records they have together. */
static void look_at_old(struct writer *w)
{
	for (uint32_t i = 0; i < w->sn->n_packets; i++) {
		struct snapshot_packet *k = &w->sn->packets[i];
		uint32_t size = k->k.size;
		struct look l;

		if (k->outcome != PACKET_OLD)
			continue;
		k->k.size = SUB_HEADER_SIZE;
		load(w, k, copy_of(w), 0, &l);
		k->k.size = size;
	}
}

/* An empty packet in its place. */
static void blank(struct writer *w, struct snapshot_packet *k)
{
	struct ctf_packet c = head_of(w, k);
	uint8_t head[CTF_HEAD_PROCESS];

	ctf_packet_head(head, &c);
	sink_frame(&w->sink, FRAME_DATA, k->lane, k->offset, head, sizeof(head));
	k->n = 0;
	k->bytes = 0;
	k->discarded = 0;
}

/* All numbers are known: sends what waited for them, and takes out what lies before the horizons.
 * In merged files it stays. */
static void send_late(struct writer *w)
{
	struct snapshot *sn = w->sn;

	for (uint32_t i = 0; i < sn->n_packets; i++) {
		struct snapshot_packet *k = &sn->packets[i];
		struct snapshot_process *p = &sn->processes[k->process];
		uint32_t n = k->n;

		if (!k->planned || k->lane == CTF_LANE_MERGED)
			continue;
		if (k->early)
			send_packet(w, k, true);
		else if (k->outcome == PACKET_KEPT && n > 0 && k->last_ts < p->horizon)
			blank(w, k);
		p->events -= n - k->n;
		p->overwritten += n - k->n;
	}
}

static void sum_up(struct snapshot *sn)
{
	for (uint32_t i = 0; i < sn->n_packets; i++) {
		const struct snapshot_packet *k = &sn->packets[i];
		struct snapshot_process *p = &sn->processes[k->process];

		if (k->outcome != PACKET_KEPT || k->n == 0)
			continue;
		p->bytes += k->bytes;
		if (p->first_ts == 0 || k->first_ts < p->first_ts)
			p->first_ts = k->first_ts;
		if (k->last_ts > p->last_ts)
			p->last_ts = k->last_ts;
	}
}

static int by_lane(const void *a, const void *b)
{
	const struct snapshot_packet *x = a, *y = b;

	if (x->lane != y->lane)
		return x->lane < y->lane ? -1 : 1;
	return x->seq == y->seq ? 0 : x->seq < y->seq ? -1 : 1;
}

static void send_discarded(struct writer *w, uint32_t file, uint64_t packet, uint64_t n)
{
	if (n > 0)
		sink_frame(&w->sink, FRAME_DATA, file, packet + CTF_DISCARDED_OFF, &n, sizeof(n));
}

/* Tells readers what is missing: a count that grows along each file. */
static void tell_discarded(struct writer *w)
{
	struct snapshot *sn = w->sn;
	uint64_t in_group[2 * GROUPS_MAX] = { 0 }, n = 0;
	uint32_t lane = CTF_LANE_MERGED;

	qsort(sn->packets, sn->n_packets, sizeof(*sn->packets), by_lane);
	for (uint32_t i = 0; i < sn->n_packets; i++) {
		const struct snapshot_packet *k = &sn->packets[i];

		if (!k->planned)
			continue;
		if (k->lane == CTF_LANE_MERGED) {
			in_group[k->seq] += k->discarded;
			continue;
		}
		n = k->lane == lane ? n + k->discarded : k->discarded;
		lane = k->lane;
		if (k->seq > 0) /* readers take the first of a file for the start of the count */
			send_discarded(w, lane, k->offset, n);
	}
	for (uint32_t g = 0; g < w->n_groups; g++)
		if (w->groups[g].file >= 0)
			send_discarded(
				w, (uint32_t)w->groups[g].file, w->groups[g].last, in_group[g]);
}

static int close_file(struct writer *w, FILE *f)
{
	if (fclose(f) != 0 && w->sink.error == 0)
		w->sink.error = -EIO;
	return w->sink.error;
}

static int send_metadata(struct writer *w)
{
	struct snapshot *sn = w->sn;
	FILE *f = sink_open(&w->sink, "ctf/metadata");

	if (!f)
		return w->sink.error;
	sn->trace.merged = w->merged_bytes > 0;
	ctf_metadata_head(f, &sn->trace);
	for (uint32_t id = sn->ids_first; id < sn->ids_end; id++)
		for (uint32_t c = CTF_CLASS_PROCESS; c <= CTF_CLASS_MERGED; c++)
			if (w->seen[id - sn->ids_first] & 1u << c)
				ctf_metadata_event(
					f, id, c, registry_get(sn->daemon->registry, id)->layout);
	return close_file(w, f);
}

static int send_report(
	struct writer *w, const char *name, void (*write)(FILE *, const struct snapshot *))
{
	FILE *f = sink_open(&w->sink, name);

	if (!f)
		return w->sink.error;
	write(f, w->sn);
	return close_file(w, f);
}

static int send_end(struct writer *w)
{
	char *json = report_summary(w->sn, w->sink.n_bytes);
	int r = -ENOMEM;

	if (json)
		r = sink_frame(&w->sink, FRAME_END, 0, 0, json, strlen(json));
	free(json);
	return r;
}

/* --- all -------------------------------------------------------------------------------------- */

/* Room for the largest copy, and for the merging of packets. */
static int buffer_new(struct writer *w)
{
	const struct snapshot *sn = w->sn;

	w->copy_room = CTF_MERGE_BUFFER;
	for (uint32_t i = 0; i < sn->n_packets; i++)
		if (sn->packets[i].k.size > w->copy_room)
			w->copy_room = sn->packets[i].k.size;
	w->buffer = malloc(HEAD_ROOM + (size_t)w->copy_room);
	w->seen = calloc(sn->ids_end - sn->ids_first + 1, 1);
	return w->buffer && w->seen ? 0 : -ENOMEM;
}

static int write_all(struct writer *w)
{
	struct snapshot *sn = w->sn;
	int r = buffer_new(w);

	if (r == 0)
		r = plan(w);
	if (r < 0)
		return r;
	announce_lanes(w);
	qsort_r(w->order, w->n_order, sizeof(*w->order), newest_first, sn->packets);
	for (uint32_t i = 0; i < w->n_order && w->sink.error == 0; i++)
		if (sn->packets[w->order[i]].lane != CTF_LANE_MERGED)
			send_packet(w, &sn->packets[w->order[i]], !sn->packets[w->order[i]].early);
	r = w->sink.error ? w->sink.error : merge_all(w);
	if (r < 0)
		return r;
	look_at_old(w);
	snapshot_count(sn);
	send_late(w);
	sum_up(sn);
	tell_discarded(w);
	r = send_metadata(w);
	if (r == 0)
		r = send_report(w, "report.json", report_write);
	if (r == 0)
		r = send_report(w, "processes.json", report_write_processes);
	return r == 0 ? send_end(w) : r;
}

static const char *error_text(int r)
{
	switch (r) {
	case -ECANCELED:
		return "the daemon is ending";
	case -ETIMEDOUT:
		return "the receiver stopped reading";
	case -EPIPE:
	case -ECONNRESET:
		return "the receiver went away";
	default:
		return strerror(-r);
	}
}

void snapshot_write(struct snapshot *sn)
{
	struct writer w = { .sn = sn,
		.sink = { .fd = sn->fd, .cancel = &sn->cancel, .stall_ms = SNAPSHOT_STALL_MS } };
	int r = write_all(&w);

	if (r < 0) {
		snprintf(sn->error, sizeof(sn->error), "%s", error_text(r));
		w.sink.error = 0;
		w.sink.stall_ms = 0; /* one try */
		sink_frame(&w.sink, FRAME_ERROR, 0, 0, sn->error, strlen(sn->error));
	}
	free(w.buffer);
	free(w.seen);
	free(w.lanes);
	free(w.order);
}
