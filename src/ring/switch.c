/* SPDX-License-Identifier: MIT */
/*
 * Changing sub-buffers: see switch.h. Choosing the next one is done out here, with all the time that
 * it takes; what was gathered is checked again inside the section (section.h) that claims it.
 *
 * Everything in the pool may be rubbish. Indexes are clamped before they are used, loops are
 * bounded, and offsets are masked into the mapping.
 *
 * Memory orders:
 * (S) state words are loaded with acquire, partner (P) in pool.c and the claimers' CAS: what a
 *     FREE one's giver did to it is visible before we write into it.
 * (Q) pos of another stream is loaded with acquire, after the state word: RETIRED is then stable.
 * (N) n_used is loaded with acquire, partner in pool.c; entries beyond it are not touched, since
 *     reading a hole of the pool would make it cost a page.
 */

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "ring/inject.h"
#include "ring/mutant.h"
#include "ring/section.h"
#include "ring/switch.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

#define NS_PER_S UINT64_C(1000000000)

static struct pool_header *writer_header(const struct ring_writer *w)
{
	return (struct pool_header *)w->base;
}

static struct sub_entry *writer_entry(const struct ring_writer *w, uint32_t idx)
{
	return (struct sub_entry *)(w->base + geometry_entry_off(idx));
}

static uint64_t entry_state(const struct ring_writer *w, uint32_t idx)
{
	return atomic_load_explicit(&writer_entry(w, idx)->state, memory_order_acquire); /* (S) */
}

/* --- system calls ------------------------------------------------------------------------------- */

static uint64_t coarse_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

/* Whether a second has passed since *at; then it is the caller's turn, and *at is now. */
static bool once_per_second(_Atomic uint64_t *at)
{
	uint64_t now = coarse_ns();
	uint64_t last = atomic_load_explicit(at, memory_order_relaxed);

	return now - last >= NS_PER_S && atomic_compare_exchange_strong_explicit(at, &last, now,
						 memory_order_relaxed, memory_order_relaxed);
}

/* The daemon sleeps until somebody switches, or dozes until somebody finds nothing free. It clears
 * asleep itself: we cannot write there. */
static void wake_daemon(struct ring_writer *w, bool nothing_free)
{
	uint32_t asleep;

	if (!w->control)
		return;
	asleep = atomic_load_explicit(&w->control->asleep, memory_order_relaxed);
	if ((asleep == DAEMON_ASLEEP || (asleep == DAEMON_DOZING && nothing_free)) &&
		once_per_second(&w->woken_at))
		syscall(SYS_futex, &w->control->asleep, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* --- choosing a sub-buffer ---------------------------------------------------------------------- */

/* Walks the entries that were ever granted. *class and *end start at 0; idx at UINT32_MAX. */
struct scan {
	uint32_t idx, class, end;
};
#define SCAN_START ((struct scan){ .idx = UINT32_MAX })

static bool scan_next(const struct ring_writer *w, struct scan *s)
{
	const struct pool_geometry *g = &w->geometry;

	s->idx++;
	while (s->idx >= s->end) {
		uint32_t n;

		if (s->class >= g->n_classes)
			return false;
		n = atomic_load_explicit(
			&writer_header(w)->n_used[s->class], memory_order_acquire); /* (N) */
		s->idx = geometry_class_first(g, s->class);
		s->end = s->idx + (n < g->n_subs[s->class] ? n : g->n_subs[s->class]);
		s->class ++;
	}
	return true;
}

/* Whether a sub-buffer of the channel is finished: once true, true while its state word stays. */
static bool is_retired(const struct ring_writer *w, uint32_t idx, uint64_t s)
{
	uint64_t q;

	if (state_cpu(s) >= w->geometry.n_streams)
		return false;
	q = atomic_load_explicit(&ring_writer_lines(w, state_ch(s))[state_cpu(s)].pos,
		memory_order_acquire); /* (Q) */
	return !gen_after(state_gen(s), pos_gen(q)) &&
	       geometry_idx(&w->geometry, pos_off(q)) != idx;
}

/* Makes the memory of a promised sub-buffer. Outside the section: this may sleep. */
static bool populate(struct ring_writer *w, uint32_t idx)
{
	const struct pool_geometry *g = &w->geometry;
	uint64_t refused = atomic_load_explicit(&w->refused_at, memory_order_relaxed);

	/* No system call in every event where memory is short. */
	if (refused != 0 && !once_per_second(&w->refused_at))
		return false;
	if (madvise(w->base + geometry_sub_off(g, idx), geometry_sub_size(g, idx),
		    MADV_POPULATE_WRITE) == 0)
		return true;
	atomic_store_explicit(&w->refused_at, coarse_ns(), memory_order_relaxed);
	return false;
}

/* A FREE one of the channel, or a PROMISED one made FREE. SUB_NONE if there is none. */
static uint32_t find_free(struct ring_writer *w, uint32_t ch, uint64_t *ret_state)
{
	struct pool_channel *hint = &writer_header(w)->channel[ch];
	uint32_t freed = atomic_load_explicit(&hint->freed, memory_order_acquire);
	uint32_t promised = SUB_NONE;
	uint64_t promised_state = 0, made;

	if (freed == atomic_load_explicit(&hint->scanned, memory_order_relaxed))
		return SUB_NONE;
	for (struct scan i = SCAN_START; scan_next(w, &i);) {
		uint64_t s = entry_state(w, i.idx);

		if (state_ch(s) != ch)
			continue;
		if (state_kind(s) == SUB_FREE) {
			*ret_state = s;
			return i.idx;
		}
		if (state_kind(s) == SUB_PROMISED && promised == SUB_NONE) {
			promised = i.idx;
			promised_state = s;
		}
	}
	if (promised == SUB_NONE) {
		atomic_store_explicit(&hint->scanned, freed, memory_order_relaxed);
		return SUB_NONE;
	}
	wake_daemon(w, true);
	if (!populate(w, promised))
		return SUB_NONE;
	made = state_make(SUB_FREE, ch, 0, state_ver(promised_state) + 1, 0);
	/* If it was taken back, or somebody else was faster, then the claim of made will fail. */
	atomic_compare_exchange_strong_explicit(&writer_entry(w, promised)->state, &promised_state,
		made, memory_order_acq_rel, memory_order_acquire);
	*ret_state = made;
	return promised;
}

/*
 * The oldest RETIRED one of the channel: the one that ended first. (Not the one that began first: a
 * stream that slept may have begun its own long ago and filled it just now; taken first, it would
 * leave a hole in what is newest.)
 *
 * The first pass takes the smallest end_ts. While it runs, streams go on: what it saw as current may
 * be retired and be older than its choice. So a second pass takes the smallest gen of the chosen
 * stream: older gens can vanish, but never appear, so that answer holds however long this thread
 * slept. Without it, snapshots have holes in the middle.
 */
static uint32_t find_oldest(const struct ring_writer *w, uint32_t ch, uint64_t *ret_state)
{
	uint64_t best_ts = UINT64_MAX, best_state = 0;
	uint32_t best = SUB_NONE;

	for (struct scan i = SCAN_START; scan_next(w, &i);) {
		uint64_t s, end_ts;

		INJECT(INJECT_SCAN);
		s = entry_state(w, i.idx);
		if (state_kind(s) != SUB_ACTIVE || state_ch(s) != ch)
			continue;
		end_ts =
			atomic_load_explicit(&writer_entry(w, i.idx)->end_ts, memory_order_relaxed);
		INJECT(INJECT_AGE);
		/* First the time: it spares most of the looks at streams' hot lines. It may be that
		 * of an earlier life, which is earlier still: of this one it is after (Q). */
		if (end_ts >= best_ts || !is_retired(w, i.idx, s))
			continue;
#ifndef RING_MUTANT_STALE_END
		end_ts =
			atomic_load_explicit(&writer_entry(w, i.idx)->end_ts, memory_order_relaxed);
#endif
		if (end_ts < best_ts) {
			best_ts = end_ts;
			best_state = s;
			best = i.idx;
		}
	}
#ifndef RING_MUTANT_ONE_PASS
	if (best == SUB_NONE)
		return SUB_NONE;
	for (struct scan i = SCAN_START; scan_next(w, &i);) {
		uint64_t s = entry_state(w, i.idx);

		if (state_kind(s) == SUB_ACTIVE && state_ch(s) == ch &&
			state_cpu(s) == state_cpu(best_state) &&
			gen_after(state_gen(best_state), state_gen(s))) {
			best_state = s;
			best = i.idx;
		}
	}
#endif
	*ret_state = best_state;
	return best;
}

/* --- switching ---------------------------------------------------------------------------------- */

static bool state_is(uint64_t s, uint32_t ch, uint32_t stream, uint32_t gen)
{
	return state_kind(s) == SUB_ACTIVE && state_ch(s) == ch && state_cpu(s) == stream &&
	       state_gen(s) == gen;
}

/* The largest gen that a stream ever claimed, as far as the table still tells; else that given. */
static uint32_t largest_gen(const struct ring_writer *w, uint32_t ch, uint32_t stream, uint32_t gen)
{
	bool found = false;

	for (struct scan i = SCAN_START; scan_next(w, &i);) {
		uint64_t s = entry_state(w, i.idx);

		if ((state_kind(s) != SUB_ACTIVE && state_kind(s) != SUB_PINNED) ||
			state_ch(s) != ch || state_cpu(s) != stream)
			continue;
		if (!found || gen_after(state_gen(s), gen))
			gen = state_gen(s);
		found = true;
	}
	return gen;
}

/*
 * Whether p, the pos of a stream, can be what a writer put there. It is not after a stray store of
 * the program into the pool, or after a debugger called a function while a thread was stopped
 * inside a section: then pos went back. While pos is p, its sub-buffer is ACTIVE(ch, stream, gen),
 * and nothing is claimed beyond the next gen, by the claim hint or by the table. What tells against
 * that counts only if pos and hint are still the same afterwards: the section that heals rechecks.
 */
static bool pos_credible(
	const struct ring_writer *w, uint32_t ch, uint32_t stream, uint64_t p, uint64_t claim)
{
	uint32_t idx = geometry_idx(&w->geometry, pos_off(p)), next = gen_next(pos_gen(p));

#ifdef RING_MUTANT_NO_HEAL
	return true;
#endif
	if (gen_after(pair_gen(claim) & GEN_MASK, next))
		return false;
	if (idx != SUB_NONE)
		return state_is(entry_state(w, idx), ch, stream, pos_gen(p));
	return !gen_after(largest_gen(w, ch, stream, pos_gen(p)), next);
}

static uint64_t lost_sum(const struct stream_line *l)
{
	uint64_t sum = 0;

	for (int i = 0; i < N_LOST_REASONS; i++)
		sum += atomic_load_explicit(&l->lost[i], memory_order_relaxed);
	return sum;
}

/* Fills in what the section does to the sub-buffer idx, now in state old, to make it gen's. */
static void plan_claim(const struct ring_writer *w, struct ring_switch *s, uint32_t ch,
	uint32_t gen, uint32_t idx, uint64_t old, bool adopted)
{
	uint32_t off = geometry_sub_off(&w->geometry, idx);

	s->entry = writer_entry(w, idx);
	s->header = (struct sub_header *)(w->base + off);
	s->state_old = old;
	s->state_new =
		adopted ? old
			: state_make(SUB_ACTIVE, ch, (uint32_t)s->cpu, state_ver(old) + 1, gen);
	s->next_new = pair_make(gen, idx);
	s->pos_new = pos_make(gen, pos_par(s->pos_old), off + SUB_HEADER_SIZE);
}

static enum section_result run_switch(const struct ring_writer *w, const struct ring_switch *s)
{
#if RING_HAVE_RSEQ
	if (w->mode == RING_RSEQ)
		return ring_section_switch(ring_rseq_area(), s);
#endif
	return ring_lock_switch(s, w->clock);
}

/*
 * Puts a pos right that is not credible: behind all gens of the stream, with no sub-buffer. What it
 * named is not finished, since that is not ours. All old ones of the stream are RETIRED then, and
 * the next round is an ordinary switch.
 */
static void heal(const struct ring_writer *w, uint32_t ch, const struct ring_switch *gathered)
{
	uint32_t stream = (uint32_t)gathered->cpu;
	uint64_t p = gathered->pos_old;
	uint32_t gen = gen_next(largest_gen(w, ch, stream, pos_gen(p)));
	struct ring_switch s = *gathered;
	struct sub_entry dummy = { 0 };
	struct sub_header header;

	s.entry = &dummy;
	s.header = &header;
	s.state_new = 1;
	s.next_new = pair_make(gen, SUB_NONE);
	s.pos_new = pos_make(gen, pos_par(p), 0);
	if (run_switch(w, &s) == SECTION_OK)
		ring_lost_count(gathered->line, LOST_CORRUPT, 1);
}

static enum switch_result switch_stream(
	struct ring_writer *w, uint32_t ch, uint32_t stream, uint64_t len)
{
	struct stream_line *l = &ring_writer_lines(w, ch)[stream];
	uint64_t p = atomic_load_explicit(&l->pos, memory_order_acquire), state;
	uint64_t count = atomic_load_explicit(&l->count, memory_order_relaxed);
	uint64_t next = atomic_load_explicit(&l->next, memory_order_acquire);
	uint32_t gen = gen_next(pos_gen(p)), idx = SUB_NONE;
	uint32_t current = geometry_idx(&w->geometry, pos_off(p));
	bool adopted = false;
	struct ring_switch s = {
		.line = l,
		.cpu = stream,
		.pos_old = p,
		.next_old = next,
		.n_before = count_records(count, p),
		.lost = lost_sum(l),
		.check = &l->pos,
		.check_value = p,
	};

	/* Somebody switched while we were away: do not finish a nearly empty one. */
	if (ring_has_room(w, p, len))
		return SWITCHED;
	if (!pos_credible(w, ch, stream, p, next)) {
		heal(w, ch, &s);
		return SWITCH_AGAIN;
	}
	if (current != SUB_NONE) {
		s.current = writer_entry(w, current);
		s.close_word = pair_make(pos_gen(p), pos_off(p) & ring_sub_mask(w, p));
	}
	/* A claim that was never committed: its claimer died, or sleeps and will restart. */
	if (pair_gen(next) == gen && pair_low(next) < w->n_subs) {
		state = entry_state(w, pair_low(next));
		s.check = &writer_entry(w, pair_low(next))->state;
		s.check_value = state;
#ifndef RING_MUTANT_NO_ADOPT
		adopted = state_is(state, ch, stream, gen);
		if (adopted)
			idx = pair_low(next);
#endif
	}
	if (!adopted)
		idx = find_free(w, ch, &state);
	if (idx == SUB_NONE)
		wake_daemon(w, true);
	if (idx == SUB_NONE &&
		atomic_load_explicit(&writer_header(w)->flight, memory_order_relaxed) >> ch & 1)
		idx = find_oldest(w, ch, &state);
	if (idx == SUB_NONE)
		return SWITCH_NOTHING;
	plan_claim(w, &s, ch, gen, idx, state, adopted);
	INJECT(INJECT_CLAIM);
	return run_switch(w, &s) == SECTION_OK ? SWITCHED : SWITCH_AGAIN;
}

enum switch_result ring_switch_stream(
	struct ring_writer *w, uint32_t ch, uint32_t stream, uint64_t len)
{
	enum switch_result r = switch_stream(w, ch, stream, len);

	wake_daemon(w, false);
	return r;
}
