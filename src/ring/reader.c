/* SPDX-License-Identifier: MIT */
/*
 * Reading a pool while its program writes: what is there, a copy of it, and whether to believe it.
 *
 * A stream's pos, read before everything else, is its cut: bytes below it in its sub-buffer, and
 * all earlier gens, are finished and do not change while their state words stay. So a copy is
 * good if the state word is the same life's after the copy as before it, and no writer waits.
 *
 * Memory orders:
 * (C) pos load-acquire, partner: the writer's commit store-release. All records and close words
 *     that a pos covers are visible after it.
 * (V) acquire fence between the copy and the second look at state, partner: the full barrier
 *     between a claimer's state CAS and its first store into the sub-buffer. If one byte of the
 *     copy is of the next life, the second look sees that life's state.
 * Nothing read here is trusted: words are taken once, then clamped.
 */

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "ring/inject.h"
#include "ring/ring.h"

#define LIVE_ROUNDS 64

/* Two state words of one life: same channel, cpu and gen, whether pinned meanwhile or not. */
static bool state_same_life(uint64_t a, uint64_t b)
{
	return state_ch(a) == state_ch(b) && state_cpu(a) == state_cpu(b) &&
	       state_gen(a) == state_gen(b);
}

static bool state_holds_records(uint64_t s)
{
	return state_kind(s) == SUB_ACTIVE || state_kind(s) == SUB_PINNED;
}

enum ring_class ring_classify(
	const struct ring_pool *p, uint32_t idx, uint64_t state, uint64_t *ret_pos)
{
	uint32_t ch = state_ch(state), cpu = state_cpu(state);
	uint64_t q = 0;

	if (ret_pos)
		*ret_pos = 0;
	if (state_kind(state) != SUB_ACTIVE || ch >= POOL_N_CHANNELS ||
		cpu >= p->geometry.n_streams)
		return RING_OTHER;
	if (ring_line_exists(p, ch, cpu))
		q = atomic_load_explicit(
			&ring_line(p, ch, cpu)->pos, memory_order_acquire); /* (C) */
	if (ret_pos)
		*ret_pos = q;
	if (gen_after(state_gen(state), pos_gen(q)))
		return RING_ORPHAN;
	return geometry_idx(&p->geometry, pos_off(q)) == idx ? RING_CURRENT : RING_RETIRED;
}

uint64_t ring_stream_records(
	const struct ring_pool *p, uint32_t ch, uint32_t stream, uint64_t *ret_pos)
{
	struct stream_line *l = ring_line(p, ch, stream);
	uint64_t q = 0, count = 0;

	if (ring_line_exists(p, ch, stream)) {
		q = atomic_load_explicit(&l->pos, memory_order_acquire); /* (C) */
		for (int i = 0; i < LIVE_ROUNDS; i++) {
			uint64_t before = q;

			count = atomic_load_explicit(&l->count, memory_order_acquire);
			q = atomic_load_explicit(&l->pos, memory_order_acquire);
			if (q == before)
				break;
		}
	}
	if (ret_pos)
		*ret_pos = q;
	return count_records(count, q);
}

void ring_stream_lost(const struct ring_pool *p, uint32_t ch, uint32_t stream, uint64_t *sum)
{
	if (!ring_line_exists(p, ch, stream))
		return;
	for (int i = 0; i < N_LOST_REASONS; i++)
		sum[i] += atomic_load_explicit(
			&ring_line(p, ch, stream)->lost[i], memory_order_relaxed);
}

/* Fills *k for sub-buffer idx of state s, if it belongs into a snapshot cut at pos q. */
static bool packet_at_cut(
	const struct ring_pool *p, uint32_t idx, uint64_t s, uint64_t q, struct ring_packet *k)
{
	struct sub_entry *e = ring_entry(p, idx);
	uint32_t size_max = geometry_sub_size(&p->geometry, idx);
	uint32_t gen = state_gen(s);

	if (gen_after(gen, pos_gen(q)))
		return false;
	*k = (struct ring_packet){
		.idx = idx,
		.ch = state_ch(s),
		.stream = state_cpu(s),
		.gen = gen,
		.state = s,
		.begin_ts = atomic_load_explicit(&e->begin_ts, memory_order_relaxed),
		.current = gen == pos_gen(q) && geometry_idx(&p->geometry, pos_off(q)) == idx,
	};
	if (k->current) {
		k->size = pos_off(q) & (size_max - 1);
	} else {
		uint64_t close = atomic_load_explicit(&e->close, memory_order_relaxed);

		k->end_ts = atomic_load_explicit(&e->end_ts, memory_order_relaxed);
		/* A close word of an earlier life, or none: claimed, and retired empty. */
		k->size = pair_gen(close) == gen ? pair_low(close) : 0;
	}
	if (k->size < SUB_HEADER_SIZE || k->size > size_max)
		k->size = 0;
	return true;
}

uint32_t ring_list(
	const struct ring_pool *p, uint32_t ch, const uint64_t *cuts, struct ring_packet *ret)
{
	uint32_t n = 0, first = 0;

	for (uint32_t c = 0; c < p->geometry.n_classes; c++) {
		for (uint32_t i = first; i < first + p->n_used[c]; i++) {
			uint64_t s = atomic_load_explicit(
				&ring_entry(p, i)->state, memory_order_acquire);

			if (state_holds_records(s) && state_ch(s) == ch &&
				state_cpu(s) < p->geometry.n_streams &&
				packet_at_cut(p, i, s, cuts[state_cpu(s)], &ret[n]))
				n++;
		}
		first += p->geometry.n_subs[c];
	}
	return n;
}

int ring_copy(const struct ring_pool *p, const struct ring_packet *k, void *buf)
{
	uint32_t off = geometry_sub_off(&p->geometry, k->idx), done = 0;
	uint64_t s;

	while (done < k->size) {
		ssize_t n = pread(p->fd, (char *)buf + done, k->size - done, off + done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		done += (uint32_t)n;
	}
	INJECT(INJECT_COPY);
#ifdef RING_MUTANT_COPY
	return 0;
#endif
	atomic_thread_fence(memory_order_acquire); /* (V) */
	s = atomic_load_explicit(&ring_entry(p, k->idx)->state, memory_order_acquire);
	return state_holds_records(s) && state_same_life(s, k->state) ? 0 : RING_BUSY;
}

/* Takes the record at data apart, but for its body. 0 if there is not even room for its header. */
static uint32_t record_head(
	const uint8_t *data, uint32_t avail, uint64_t prev_ts, struct ring_record *ret)
{
	uint16_t id;
	uint32_t low;

	if (avail < RECORD_COMPACT)
		return 0;
	memcpy(&id, data, sizeof(id));
	if (id == RECORD_ESCAPE) {
		if (avail < RECORD_EXTENDED)
			return 0;
		memcpy(&ret->id, data + 2, sizeof(ret->id));
		memcpy(&ret->ts, data + 6, sizeof(ret->ts));
		return RECORD_EXTENDED;
	}
	memcpy(&low, data + 2, sizeof(low));
	ret->id = id;
	ret->ts = prev_ts + (uint32_t)(low - (uint32_t)prev_ts);
	return RECORD_COMPACT;
}

static bool header_agrees(const struct ring_packet *k, const struct sub_header *h)
{
	return h->id == state_make(SUB_ACTIVE, k->ch, k->stream, 0, k->gen) &&
	       h->begin_ts == k->begin_ts && (k->current || h->begin_ts <= k->end_ts);
}

int ring_verify(const struct ring_packet *k, const void *copy, uint64_t now,
	ring_body_len_fn *body_len, ring_record_fn *record, void *arg, uint32_t *ret_n,
	uint64_t *ret_last_ts)
{
	uint64_t end = k->current ? now : k->end_ts, ts;
	uint32_t at = SUB_HEADER_SIZE, n = 0;
	const uint8_t *data = copy;
	struct sub_header h;

	if (k->size < SUB_HEADER_SIZE)
		return 1 + LEFT_BAD_HEADER;
	memcpy(&h, copy, sizeof(h));
	if (!header_agrees(k, &h))
		return 1 + LEFT_BAD_HEADER;
	ts = h.begin_ts;
	while (at < k->size) {
		struct ring_record r;
		uint32_t head = record_head(data + at, k->size - at, ts, &r);

		if (head == 0)
			return 1 + LEFT_BAD_RECORD;
		at += head;
		r.body = data + at;
		r.body_len = body_len(arg, r.id, r.body, k->size - at);
		if (r.body_len == 0 || r.body_len > k->size - at)
			return 1 + LEFT_BAD_RECORD;
		if (r.ts < ts || r.ts > end)
			return 1 + LEFT_BAD_TIME;
		ts = r.ts;
		at += r.body_len;
		n++;
		if (record)
			record(arg, &r);
	}
	*ret_n = n;
	*ret_last_ts = ts;
	return 0;
}
