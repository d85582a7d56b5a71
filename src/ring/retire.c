/* SPDX-License-Identifier: MIT */
/*
 * Ending the current sub-buffer of a stream that has fallen silent, from the daemon. Else a program
 * that was loud once would hold a large sub-buffer for ever.
 *
 * pos is the writers' own: nobody else may store to it. So the daemon becomes a writer for a moment:
 * a thread of it goes to the stream's CPU (or takes the stream's lock) and runs the same switch
 * section, with no successor: pos becomes (gen + 1, no sub-buffer). The pos that it was decided on
 * is rechecked inside, which proves the silence.
 *
 * If a claim is outstanding (its claimer died, or sleeps), the section adopts it as a writer would,
 * and pos still names nothing: that one is then RETIRED and empty. Claim and header otherwise go to
 * dummies: the daemon has no sub-buffer mapped, and nothing reads the header of an empty one.
 */

#include <errno.h>

#include "ring/section.h"

static int retire_run(const struct ring_switch *s, enum ring_mode mode, enum trace_clock clock)
{
	enum section_result r;

	if (mode == RING_LOCK) {
		if (!ring_lock_try(s->line, RING_OWNER_DAEMON))
			return RING_BUSY;
		r = ring_lock_switch(s, clock);
		ring_lock_release(s->line);
	} else {
#if RING_HAVE_RSEQ
		struct rseq_area *rseq = ring_rseq_area();

		if (!rseq || clock != TRACE_CLOCK_TSC)
			return -ENOTSUP;
		r = ring_section_switch(rseq, s);
#else
		return -ENOTSUP;
#endif
	}
	return r == SECTION_OK ? 0 : RING_BUSY;
}

int ring_retire(struct ring_pool *p, uint32_t ch, uint32_t stream, uint64_t pos,
	enum ring_mode mode, enum trace_clock clock)
{
	const struct pool_geometry *g = &p->geometry;
	uint32_t idx = geometry_idx(g, pos_off(pos)), gen = gen_next(pos_gen(pos));
	struct stream_line *l = ring_line(p, ch, stream);
	struct sub_entry dummy = { 0 };
	struct sub_header header;
	uint64_t state, next;
	struct ring_switch s;

	if (idx == SUB_NONE || !ring_line_exists(p, ch, stream))
		return RING_BUSY;
	state = atomic_load_explicit(&ring_entry(p, idx)->state, memory_order_acquire);
	if (state_kind(state) != SUB_ACTIVE || state_ch(state) != ch ||
		state_cpu(state) != stream || state_gen(state) != pos_gen(pos))
		return RING_BUSY;
	next = atomic_load_explicit(&l->next, memory_order_acquire);
	s = (struct ring_switch){
		.line = l,
		.cpu = stream,
		.entry = &dummy,
		.header = &header,
		.state_new = 1,
		.current = ring_entry(p, idx),
		.close_word =
			pair_make(pos_gen(pos), pos_off(pos) & (geometry_sub_size(g, idx) - 1)),
		.check = &l->pos,
		.check_value = pos,
		.pos_old = pos,
		.pos_new = pos_make(gen, pos_par(pos), 0),
		.next_old = next,
		.next_new = pair_make(gen, SUB_NONE),
	};
	if (pair_gen(next) == gen && pair_low(next) < p->n_subs) {
		struct sub_entry *orphan = ring_entry(p, pair_low(next));

		state = atomic_load_explicit(&orphan->state, memory_order_acquire);
		s.check = &orphan->state;
		s.check_value = state;
		if (state_kind(state) == SUB_ACTIVE && state_ch(state) == ch &&
			state_cpu(state) == stream && state_gen(state) == gen) {
			s.entry = orphan;
			s.state_old = state;
			s.state_new = state;
			s.next_new = next;
		}
	}
	return retire_run(&s, mode, clock);
}
