/* SPDX-License-Identifier: MIT */

/*
 * Every record accounted for. In each stream a packet's header says how many records came before
 * it, so what lies between two packets is known exactly, whatever happened there:
 *
 *     0 ........ [old] [kept] [refused] [kept] ........ N at the cut
 *     aged or     aged         left out          left out
 *     overwritten
 *
 * Aged is what the daemon counted when it took old packets back, plus what is too old for this
 * snapshot. What nobody accounts for was overwritten.
 */

#include <stdlib.h>

#include "daemon/snapshot-data.h"

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
	struct snapshot *sn;
	struct snapshot_process *p;
	uint64_t n;		      /* records of the stream: nothing known is beyond */
	bool placed;		      /* at is known */
	uint64_t at;		      /* records up to here are accounted for, from the first known on */
	bool old;		      /* what comes at once is of an old packet */
	bool refused;		      /* one was refused since: it explains a gap */
	enum left_out_reason reason;
	struct snapshot_packet *last; /* kept */
	uint64_t missing_until;	      /* trace clock: something is missing before; 0: nothing */
};

/* A program can claim any number. What readers add up must not overflow. */
#define TOLD_MAX (UINT64_C(1) << 40)

static void tell(struct snapshot_packet *k, uint64_t n)
{
	k->discarded += n < TOLD_MAX ? n : TOLD_MAX;
}

static void missing(struct walk *w, uint64_t until)
{
	if (until > w->missing_until)
		w->missing_until = until;
}

/* Accounts for the records up to n, which is where something known begins at ts. */
static void advance(struct walk *w, uint64_t n, uint64_t ts)
{
	uint64_t gap = n > w->at ? n - w->at : 0;

	if (w->placed && gap > 0) {
		if (w->old) {
			w->p->aged += gap;
		} else {
			w->p->left_out[w->refused ? w->reason : LEFT_RACED] += gap;
			missing(w, ts);
			if (w->last)
				tell(w->last, gap);
		}
	}
	if (!w->placed && n > 0)
		missing(w, ts);
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
	missing(w, ts);
}

static void step(struct walk *w, struct snapshot_packet *k)
{
	struct snapshot_process *p = w->p;

	if (k->outcome == PACKET_REFUSED && !k->header_good) {
		w->refused = true;
		w->reason = k->reason;
		return;
	}
	advance(w, k->n_before < w->n ? k->n_before : w->n, k->k.begin_ts);
	if (k->outcome == PACKET_OLD) {
		w->old = true;
		w->missing_until = 0; /* whatever it was: it was before the window */
		return;
	}
	if (k->outcome == PACKET_REFUSED) {
		w->refused = true;
		w->reason = k->reason;
		return;
	}
	lost_until(w, k->lost, k->k.begin_ts);
	w->at += (uint64_t)k->n + k->trimmed;
	w->last = k;
	p->events += k->n;
	p->aged += k->trimmed;
}

/* One stream, n packets of it. Returns its records if nothing placed them, to be left out. */
static uint64_t count_stream(struct snapshot *sn, struct snapshot_process *p, uint32_t stream,
	struct snapshot_packet *k, uint32_t n, enum left_out_reason *ret_reason, uint64_t *missing_until)
{
	const struct snapshot_stream *s = &p->streams[stream];
	struct walk w = { .sn = sn, .p = p, .n = s->n };

	for (uint32_t i = 0; i < n; i++)
		step(&w, &k[i]);
	if (w.placed)
		advance(&w, s->n, sn->now);
	else if (s->n > 0)
		missing(&w, w.refused || s->last_ts == 0 ? sn->now : s->last_ts + 1);
	if (p->pool)
		lost_until(&w, s->lost, sn->now);
	if (w.missing_until > *missing_until)
		*missing_until = w.missing_until;
	*ret_reason = w.reason;
	return !w.placed && w.refused ? s->n : 0;
}

static uint64_t sum(const uint64_t *v, int n)
{
	uint64_t s = 0;

	for (int i = 0; i < n; i++)
		s += v[i];
	return s;
}

/* A process without a pool: what it lost in all is known, but not in which stream. What its headers
 * do not tell came after the last of them. */
static void count_late_losses(struct snapshot_process *p, struct snapshot_packet *k, uint32_t n)
{
	uint64_t told = 0, all = sum(p->lost, N_LOST_REASONS) + p->lost_base;
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
	if (newest && all > told)
		tell(newest, all - told);
}

static void count_process(
	struct snapshot *sn, struct snapshot_process *p, struct snapshot_packet *k, uint32_t n)
{
	uint64_t missing_until = 0, lost[N_LEFT_OUT_REASONS] = { 0 }, known, rest;
	uint32_t at = 0;

	for (uint32_t s = 0; s < p->n_streams; s++) {
		enum left_out_reason reason;
		uint32_t from = at;
		uint64_t unplaced;

		while (at < n && k[at].k.stream == s)
			at++;
		unplaced = count_stream(sn, p, s, k + from, at - from, &reason, &missing_until);
		if (unplaced > 0)
			lost[reason] += unplaced;
	}
	known = p->events + p->aged + p->consumed + sum(p->left_out, N_LEFT_OUT_REASONS);
	rest = p->committed > known ? p->committed - known : 0;
	for (int i = 0; i < N_LEFT_OUT_REASONS; i++) {
		uint64_t part = lost[i] < rest ? lost[i] : rest;

		p->left_out[i] += part;
		rest -= part;
	}
	p->overwritten = rest;
	if (!p->pool)
		count_late_losses(p, k, n);

	p->complete_since = p->since > sn->keep_since ? p->since : sn->keep_since;
	if ((p->overwritten > 0 || sum(p->left_out, N_LEFT_OUT_REASONS) > 0 ||
		    sum(p->lost, N_LOST_REASONS) > 0) &&
		missing_until > p->complete_since)
		p->complete_since = missing_until;
}

void snapshot_count(struct snapshot *sn)
{
	uint32_t at = 0;

	qsort(sn->packets, sn->n_packets, sizeof(*sn->packets), packet_compare);
	for (uint32_t i = 0; i < sn->n_processes; i++) {
		uint32_t from = at;

		while (at < sn->n_packets && sn->packets[at].process == i)
			at++;
		count_process(sn, &sn->processes[i], sn->packets + from, at - from);
	}
}
