/* SPDX-License-Identifier: MIT */

/*
 * Every record accounted for. In each stream a packet's header says how many records came before
 * it, so what lies between two packets is known exactly, whatever happened there:
 *
 *     0 ........ [old] [kept] ....... [kept] [refused] [kept] [raced] N at the cut
 *     aged or     aged        over-           left out         left out
 *     overwritten             written
 *
 * Aged is what the daemon counted when it took old packets back, plus what is too old for this
 * snapshot. What nobody accounts for was overwritten.
 *
 * The horizon. Writers overwrite what ended first, in all streams of the pool. So what is missing in
 * front of a stream's first packet is not newer than the end of any finished packet that is there
 * (but for those that were pinned while younger ones went), nor than the first packet's begin. The
 * largest of these bounds is the process's horizon: behind it nothing was overwritten. What a
 * stream that slept has from before is an island in what was overwritten.
 */

#include <stdlib.h>

#include "daemon/snapshot/data.h"

static int packet_compare(const void *a, const void *b)
{
	const struct snapshot_packet *x = a, *y = b;

	if (x->process != y->process)
		return x->process < y->process ? -1 : 1;
	if (x->k.stream != y->k.stream)
		return x->k.stream < y->k.stream ? -1 : 1;
	return x->k.gen == y->k.gen ? 0 : gen_after(x->k.gen, y->k.gen) ? 1 : -1;
}

/* Walks one stream's packets. */
struct walk {
	struct snapshot_process *p;
	uint64_t n;   /* records of the stream: nothing known is beyond */
	bool placed;  /* at is known */
	uint64_t at;  /* records up to here are accounted for, from the first known on */
	bool old;     /* what comes at once is of an old packet */
	bool refused; /* one was refused since: it explains a gap */
	enum left_out_reason reason;
	struct snapshot_packet *last; /* kept */
	uint64_t missing_until; /* trace clock: something else is missing before; 0: nothing */
	uint64_t front;		/* trace clock: where the part without overwritten ones begins */
	bool front_known;	/* there is a packet right before the front: no better bound */
	uint64_t first_end;	/* of the finished packets since the front, the earliest end */
};

/* What the streams of a process say together. */
struct bounds {
	uint64_t missing_until;
	uint64_t known, guessed; /* fronts */
	bool lost_stream;	 /* nothing is there of a stream, and nobody knows when it ended */
	uint64_t first_end;
	uint64_t unplaced[N_LEFT_OUT_REASONS];
};

/* A program can claim any number. What readers add up must not overflow. */
#define TOLD_MAX (UINT64_C(1) << 40)

static void tell(struct snapshot_packet *k, uint64_t n)
{
	if (k)
		k->discarded += n < TOLD_MAX ? n : TOLD_MAX;
}

static void raise_to(uint64_t *v, uint64_t to)
{
	if (to > *v)
		*v = to;
}

static void front_set(struct walk *w, uint64_t ts, bool known)
{
	w->front = ts;
	w->front_known = known;
	w->first_end = UINT64_MAX;
}

/* Accounts for the records up to n, where something known begins at ts, or all ends. */
static void advance(struct walk *w, uint64_t n, uint64_t ts, bool end)
{
	uint64_t gap = n > w->at ? n - w->at : 0;

	if (!w->placed) {
		if (n > 0)
			front_set(w, ts, false);
	} else if (gap > 0 && w->old) {
		w->p->aged += gap;
	} else if (gap > 0 && (end || (w->refused && w->reason != LEFT_RACED))) {
		w->p->left_out[w->refused ? w->reason : LEFT_RACED] += gap;
		raise_to(&w->missing_until, ts);
		tell(w->last, gap);
	} else if (gap > 0) {
		front_set(w, ts, true);
		tell(w->last, gap);
	}
	w->placed = true;
	w->at = n;
	w->old = false;
	w->refused = false;
}

static void lost_until(struct walk *w, uint64_t lost, uint64_t ts)
{
	if (!w->last || lost <= w->last->lost)
		return;
	tell(w->last, lost - w->last->lost);
	raise_to(&w->missing_until, ts);
}

static void step(struct walk *w, struct snapshot_packet *k)
{
	struct snapshot_process *p = w->p;

	if (k->outcome != PACKET_REFUSED || k->header_good)
		advance(w, k->n_before < w->n ? k->n_before : w->n, k->k.begin_ts, false);
	if (k->outcome == PACKET_REFUSED) {
		w->refused = true;
		w->reason = k->reason;
		return;
	}
	if (k->outcome == PACKET_OLD) {
		w->old = true;
		front_set(w, 0, false); /* whatever it was: it was before the window */
		return;
	}
	lost_until(w, k->lost, k->k.begin_ts);
	w->at += (uint64_t)k->n + k->trimmed;
	w->last = k;
	p->events += k->n;
	p->aged += k->trimmed;
	if (!k->open && k->k.end_ts > p->pinned_until && k->k.end_ts < w->first_end)
		w->first_end = k->k.end_ts;
}

/* One stream, n packets of it. */
static void count_stream(const struct snapshot *sn, struct snapshot_process *p, uint32_t stream,
	struct snapshot_packet *k, uint32_t n, struct bounds *b)
{
	const struct snapshot_stream *s = &p->streams[stream];
	struct walk w = { .p = p, .n = s->n, .first_end = UINT64_MAX };

	for (uint32_t i = 0; i < n; i++)
		step(&w, &k[i]);
	if (w.placed) {
		advance(&w, s->n, sn->now, true);
	} else if (w.refused) {
		b->unplaced[w.reason] += s->n;
		raise_to(&b->missing_until, sn->now);
	} else if (s->n > 0 && s->last_ts > 0) {
		front_set(&w, s->last_ts < sn->now ? s->last_ts + 1 : sn->now, false);
	} else if (s->n > 0) {
		b->lost_stream = true;
	}
	if (p->pool)
		lost_until(&w, s->lost, sn->now);
	raise_to(&b->missing_until, w.missing_until);
	raise_to(w.front_known ? &b->known : &b->guessed, w.front);
	if (w.first_end < b->first_end)
		b->first_end = w.first_end;
}

/* A process without a pool: what it lost in all is known, but not in which stream. What its headers
 * do not tell came after the last of them. */
static void count_late_losses(struct snapshot_process *p, struct snapshot_packet *k, uint32_t n)
{
	uint64_t told = 0, all = snapshot_sum(p->lost, N_LOST_REASONS) + p->lost_base;
	struct snapshot_packet *newest = NULL;

	for (uint32_t i = 0; i < n; i++) {
		bool last = i + 1 == n || k[i + 1].k.stream != k[i].k.stream;

		if (k[i].outcome != PACKET_KEPT)
			continue;
		if (last)
			told += k[i].lost;
		if (!newest || k[i].k.end_ts > newest->k.end_ts)
			newest = &k[i];
	}
	if (all > told)
		tell(newest, all - told);
}

/* What is not accounted for: of streams of which nothing was good, left out; else overwritten. */
static void count_rest(struct snapshot_process *p, const struct bounds *b)
{
	uint64_t known =
		p->events + p->aged + p->consumed + snapshot_sum(p->left_out, N_LEFT_OUT_REASONS);
	uint64_t rest = p->committed > known ? p->committed - known : 0;

	for (int i = 0; i < N_LEFT_OUT_REASONS; i++) {
		uint64_t part = b->unplaced[i] < rest ? b->unplaced[i] : rest;

		p->left_out[i] += part;
		rest -= part;
	}
	p->overwritten = rest;
}

static void count_process(const struct snapshot *sn, struct snapshot_process *p,
	struct snapshot_packet *k, uint32_t n)
{
	struct bounds b = { .first_end = UINT64_MAX };
	bool taken_back = p->aged > 0; /* until here it counts what the daemon took back */
	uint32_t at = 0;

	for (uint32_t s = 0; s < p->n_streams; s++) {
		uint32_t from = at;

		while (at < n && k[at].k.stream == s)
			at++;
		count_stream(sn, p, s, k + from, at - from, &b);
	}
	count_rest(p, &b);
	if (!p->pool)
		count_late_losses(p, k, n);
	if (p->overwritten > 0) {
		p->horizon = b.guessed < b.first_end ? b.guessed : b.first_end;
		raise_to(&p->horizon, b.known);
	}
	p->complete_since = p->since;
	raise_to(&p->complete_since, sn->keep_since);
	if (taken_back)
		raise_to(&p->complete_since, sn->window_since);
	raise_to(&p->complete_since, p->horizon);
	if (p->overwritten > 0 && b.lost_stream)
		raise_to(&p->complete_since, b.first_end < sn->now ? b.first_end : sn->now);
	if (snapshot_sum(p->left_out, N_LEFT_OUT_REASONS) > 0 ||
		snapshot_sum(p->lost, N_LOST_REASONS) > 0)
		raise_to(&p->complete_since, b.missing_until);
}

void snapshot_count(struct snapshot *sn)
{
	uint32_t at = 0;

	if (sn->n_packets > 0)
		qsort(sn->packets, sn->n_packets, sizeof(*sn->packets), packet_compare);
	for (uint32_t i = 0; i < sn->n_processes; i++) {
		uint32_t from = at;

		while (at < sn->n_packets && sn->packets[at].process == i)
			at++;
		count_process(sn, &sn->processes[i], sn->packets + from, at - from);
	}
}
