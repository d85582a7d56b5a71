/* SPDX-License-Identifier: MIT */
/*
 * Looking at a pool: see pool-view.h. Every word of shared memory is read once. Rubbish in it can
 * make its own program's data look older, younger or odd, and nothing else.
 */

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/memory/pool-view.h"

/* --- streams -------------------------------------------------------------------------------------- */

static uint64_t stream_pos(const struct pool *p, uint32_t ch, uint32_t stream)
{
	if (!ring_line_exists(&p->ring, ch, stream))
		return 0;
	return atomic_load_explicit(&ring_line(&p->ring, ch, stream)->pos, memory_order_acquire);
}

static uint64_t stream_last_ts(const struct pool *p, uint32_t ch, uint32_t stream)
{
	if (!ring_line_exists(&p->ring, ch, stream))
		return 0;
	return atomic_load_explicit(
		&ring_line(&p->ring, ch, stream)->last_ts, memory_order_relaxed);
}

/* Bytes of sub-buffers that a stream filled between two positions, as far as one can tell. */
static uint64_t stream_switched(const struct pool *p, uint64_t from, uint64_t to)
{
	uint32_t gens = (pos_gen(to) - pos_gen(from)) & GEN_MASK;
	uint32_t idx = geometry_idx(&p->ring.geometry, pos_off(to));

	if (gens == 0 || idx == SUB_NONE || gens > GEN_MASK / 2)
		return 0;
	/* One that had none begins one, and has filled nothing yet. */
	if (geometry_idx(&p->ring.geometry, pos_off(from)) == SUB_NONE)
		gens--;
	return (uint64_t)gens * pool_sub_size(p, idx);
}

static int streams_look(struct pool_view *v, struct pool *p, uint32_t ch, bool tick)
{
	struct pool_channel_books *b = &p->channel[ch];
	uint32_t n = p->ring.geometry.n_streams;

	if (!b->seen) {
		b->seen = calloc(n, sizeof(*b->seen));
		if (!b->seen)
			return -ENOMEM;
	}
	for (uint32_t i = 0; i < n; i++) {
		uint64_t pos = stream_pos(p, ch, i);

		v->n_streams += pos_gen(pos) != 0;
		if (pos == b->seen[i])
			continue;
		v->moved = true;
		v->began |= pos_gen(pos) != pos_gen(b->seen[i]);
		v->switched += stream_switched(p, b->seen[i], pos);
		if (tick)
			b->seen[i] = pos;
	}
	return 0;
}

/* --- sub-buffers ---------------------------------------------------------------------------------- */

static enum sub_use sub_use_of(const struct pool *p, uint32_t idx, uint64_t state, uint32_t ch)
{
	switch (state_kind(state)) {
	case SUB_FREE:
		return state_ch(state) == ch ? SUB_USE_SPARE : SUB_USE_ODD;
	case SUB_PROMISED:
		return state_ch(state) == ch ? SUB_USE_PROMISED : SUB_USE_ODD;
	case SUB_PINNED:
		return SUB_USE_BUSY;
	case SUB_ACTIVE:
		break;
	default:
		return SUB_USE_ODD;
	}
	if (state_ch(state) != ch)
		return SUB_USE_ODD;
	switch (ring_classify(&p->ring, idx, state, NULL)) {
	case RING_RETIRED:
		return SUB_USE_RETIRED;
	case RING_CURRENT:
	case RING_ORPHAN:
		return SUB_USE_BUSY;
	default:
		return SUB_USE_ODD;
	}
}

static void sub_look(struct pool_view *v, struct pool *p, uint32_t idx, uint32_t ch, uint64_t now)
{
	struct sub_entry *e = ring_entry(&p->ring, idx);
	const struct pool_sub *sub = &p->subs[idx];
	struct sub_view s = { .idx = idx, .size = pool_sub_size(p, idx) };
	uint64_t end;

	s.state = atomic_load_explicit(&e->state, memory_order_acquire);
	/* The promise was taken up: from here on it is a grant like others. */
	if (p->subs[idx].kind == POOL_SUB_PROMISED && state_kind(s.state) != SUB_PROMISED)
		p->subs[idx].kind = POOL_SUB_HELD;
	s.use = sub_use_of(p, idx, s.state, ch);
	switch (s.use) {
	case SUB_USE_SPARE:
		v->bytes_spare += s.size;
		break;
	case SUB_USE_PROMISED:
		v->bytes_promised += s.size;
		break;
	default:
		v->bytes_data += s.size;
		break;
	}
	if (s.use == SUB_USE_RETIRED || s.use == SUB_USE_BUSY) {
		s.begin_ts = atomic_load_explicit(&e->begin_ts, memory_order_relaxed);
		s.last_ts = state_cpu(s.state) < p->ring.geometry.n_streams
				    ? stream_last_ts(p, ch, state_cpu(s.state))
				    : now;
		end = atomic_load_explicit(&e->end_ts, memory_order_relaxed);
		if (s.use == SUB_USE_RETIRED && end < s.last_ts)
			s.last_ts = end;
		if (s.begin_ts > now)
			s.begin_ts = now;
		/* A switch sets the stream's last_ts, ours too, so that does not tell the silence. */
		if (s.last_ts < s.begin_ts || (s.use == SUB_USE_RETIRED && sub->silent &&
						      sub->silent_gen == state_gen(s.state)))
			s.last_ts = s.begin_ts;
		if (s.last_ts > now)
			s.last_ts = now;
	}
	v->subs[v->n++] = s;
}

int pool_view_take(struct pool_view *v, struct pool *p, uint32_t ch, uint64_t now, bool tick)
{
	const struct pool_geometry *g = &p->ring.geometry;
	uint32_t need = p->channel[ch].n_subs;
	int r;

	*v = (struct pool_view){ .subs = v->subs, .room = v->room };
	if (need > v->room) {
		free(v->subs);
		v->subs = malloc(need * sizeof(*v->subs));
		v->room = v->subs ? need : 0;
		if (!v->subs)
			return -ENOMEM;
	}
	r = streams_look(v, p, ch, tick);
	if (r < 0)
		return r;
	for (uint32_t c = 0; c < g->n_classes; c++) {
		uint32_t first = geometry_class_first(g, c);

		for (uint32_t i = first; i < first + p->n_end[c] && v->n < need; i++) {
			const struct pool_sub *sub = &p->subs[i];

			if (sub->ch == ch &&
				(sub->kind == POOL_SUB_HELD || sub->kind == POOL_SUB_PROMISED))
				sub_look(v, p, i, ch, now);
		}
	}
	return 0;
}

void pool_view_fini(struct pool_view *v)
{
	free(v->subs);
	*v = (struct pool_view){ 0 };
}

/* Serial, so right across the wrap of gens. */
static int gen_order(uint64_t a, uint64_t b)
{
	if (state_gen(a) == state_gen(b))
		return 0;
	return gen_after(state_gen(a), state_gen(b)) ? 1 : -1;
}

static int age_order(const void *pa, const void *pb)
{
	const struct sub_view *a = pa, *b = pb;

	if ((a->use == SUB_USE_RETIRED) != (b->use == SUB_USE_RETIRED))
		return a->use == SUB_USE_RETIRED ? -1 : 1;
	if (a->last_ts != b->last_ts)
		return a->last_ts < b->last_ts ? -1 : 1;
	if (state_cpu(a->state) != state_cpu(b->state))
		return state_cpu(a->state) < state_cpu(b->state) ? -1 : 1;
	return gen_order(a->state, b->state);
}

void pool_view_sort_by_age(struct pool_view *v)
{
	if (v->n > 1)
		qsort(v->subs, v->n, sizeof(*v->subs), age_order);
}

/* --- counts --------------------------------------------------------------------------------------- */

/* The stream's count when this sub-buffer began. False if its header is not its own. */
static bool header_n_before(const struct pool *p, const struct sub_view *s, uint64_t *ret)
{
	uint64_t id = state_make(
		SUB_ACTIVE, state_ch(s->state), state_cpu(s->state), 0, state_gen(s->state));
	struct sub_header h;

	if (pread(p->ring.fd, &h, sizeof(h), geometry_sub_off(&p->ring.geometry, s->idx)) !=
			sizeof(h) ||
		h.id != id)
		return false;
	*ret = h.n_before;
	return true;
}

/* The sub-buffer that the stream wrote next after s, or NULL. */
static const struct sub_view *successor(const struct pool_view *v, const struct sub_view *s)
{
	const struct sub_view *best = NULL;

	for (uint32_t i = 0; i < v->n; i++) {
		const struct sub_view *t = &v->subs[i];

		if ((t->use != SUB_USE_RETIRED && t->use != SUB_USE_BUSY) ||
			state_cpu(t->state) != state_cpu(s->state) ||
			gen_order(t->state, s->state) <= 0)
			continue;
		if (!best || gen_order(t->state, best->state) < 0)
			best = t;
	}
	return best;
}

uint64_t pool_view_records(const struct pool_view *v, const struct pool *p, uint32_t i)
{
	const struct sub_view *s = &v->subs[i], *next = successor(v, s);
	uint64_t from, to, pos;

	if (!header_n_before(p, s, &from))
		return 0;
	if (!next) {
		to = ring_stream_records(&p->ring, state_ch(s->state), state_cpu(s->state), &pos);
		if (geometry_idx(&p->ring.geometry, pos_off(pos)) != SUB_NONE)
			return 0; /* it went on meanwhile */
	} else if (!header_n_before(p, next, &to)) {
		return 0;
	}
	return to >= from && to - from <= s->size / RECORD_COMPACT ? to - from : 0;
}
