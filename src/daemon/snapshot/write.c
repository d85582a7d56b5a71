/* SPDX-License-Identifier: MIT */

/*
 * The worker of a snapshot. The sizes of all packets are known from the cut, so the plan comes
 * first: which packet goes where in which file. Then packets are copied, those that writers are in
 * first, then newest first, for writers take the oldest; each is checked and sent to its place. One
 * that is gone or bad becomes an empty packet of the planned size. What only the whole tells (events
 * discarded, and where the part without holes begins) is sent at the end, on top.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctf/lanes.h"
#include "ctf/merge.h"
#include "ctf/packet.h"
#include "daemon/daemon.h"
#include "daemon/programs/process.h"
#include "daemon/snapshot/report.h"
#include "daemon/snapshot/writer.h"

/* --- lanes ------------------------------------------------------------------------------------ */

/* The first record's low 32 bits of time count from the begin: it is never left further behind than
 * the records that were left out in front of it. */
static struct ctf_packet head_of(const struct writer *w, const struct snapshot_packet *k)
{
	const struct snapshot_process *p = &w->sn->processes[k->process];
	const struct process *who = p->process;
	uint64_t end = writer_packet_end(w->sn, k),
		 begin = k->begin > p->horizon ? k->begin : p->horizon;

	return (struct ctf_packet){
		.uuid = w->sn->trace.uuid,
		.stream = k->lane,
		.ts_begin = begin < end ? begin : end,
		.ts_end = end,
		.content = CTF_HEAD_PROCESS,
		.size = writer_packet_size(k),
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

/* Sends what writer_load() left in the buffer; without a look, an empty packet. */
static void send_copy(struct writer *w, const struct snapshot_packet *k, const struct look *l)
{
	struct ctf_packet c = head_of(w, k);
	uint8_t *head = w->buffer;

	if (l) {
		c.content += k->k.size - l->from;
		head = writer_copy(w) + l->from - CTF_HEAD_PROCESS;
	}
	ctf_packet_head(head, &c);
	sink_frame(&w->sink, FRAME_DATA, k->lane, k->offset, head, c.content);
}

/* With send false, only its outcome is written down. */
static void send_packet(struct writer *w, struct snapshot_packet *k, bool send)
{
	struct look l;
	bool good = writer_load(w, k, writer_copy(w), 1u << CTF_CLASS_PROCESS, &l);

	if (good)
		writer_keep(k, &l);
	if (send)
		send_copy(w, k, good ? &l : NULL);
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
		writer_load(w, k, writer_copy(w), 0, &l);
		k->k.size = size;
	}
}

static void blank(struct writer *w, struct snapshot_packet *k)
{
	send_copy(w, k, NULL);
	k->n = 0;
	k->bytes = 0;
	k->discarded = 0;
}

/* Sends the part behind the horizon over the whole that was sent, if the packet is still there. */
static void resend(struct writer *w, struct snapshot_packet *k)
{
	struct snapshot_packet sent = *k;
	struct look l;

	if (!writer_load(w, k, writer_copy(w), 1u << CTF_CLASS_PROCESS, &l)) {
		*k = sent;
		return;
	}
	writer_keep(k, &l);
	send_copy(w, k, &l);
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
		else if (k->outcome == PACKET_KEPT && n > 0 && k->first_ts < p->horizon)
			resend(w, k);
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

	if (sn->n_packets > 0)
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
		if (w->merged[g].file >= 0)
			send_discarded(
				w, (uint32_t)w->merged[g].file, w->merged[g].last, in_group[g]);
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
	w->buffer = malloc(WRITER_HEAD_ROOM + (size_t)w->copy_room);
	w->seen = calloc(sn->ids_end - sn->ids_first + 1, 1);
	return w->buffer && w->seen ? 0 : -ENOMEM;
}

static int write_all(struct writer *w)
{
	struct snapshot *sn = w->sn;
	int r = buffer_new(w);

	if (r == 0)
		r = writer_plan(w);
	if (r < 0)
		return r;
	announce_lanes(w);
	qsort_r(w->order, w->n_order, sizeof(*w->order), newest_first, sn->packets);
	for (uint32_t i = 0; i < w->n_order && w->sink.error == 0; i++)
		if (sn->packets[w->order[i]].lane != CTF_LANE_MERGED)
			send_packet(w, &sn->packets[w->order[i]], !sn->packets[w->order[i]].early);
	r = w->sink.error ? w->sink.error : writer_merge(w);
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
		const char *text = error_text(r);

		w.sink.error = 0;
		w.sink.stall_ms = 0; /* one try */
		sink_frame(&w.sink, FRAME_ERROR, 0, 0, text, strlen(text));
	}
	free(w.buffer);
	free(w.seen);
	free(w.lanes);
	free(w.order);
}
