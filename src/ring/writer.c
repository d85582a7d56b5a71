/* SPDX-License-Identifier: MIT */
/*
 * Recording: what happens around the sections of section.h, which do the writing. How a stream comes
 * to another sub-buffer is in switch.c.
 *
 * Everything in the pool may be rubbish here as well: one bad store of the program must not make
 * our code crash it. So numbers are clamped before they are used, and offsets masked into the
 * mapping.
 */

#include <errno.h>
#include <time.h>

#include "ring/inject.h"
#include "ring/mutant.h"
#include "ring/section.h"
#include "ring/switch.h"

#define NS_PER_S UINT64_C(1000000000)

/* Weak, for a libc that does not register rseq (glibc before 2.35, musl): then there is none. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

#define RSEQ_CPU_ID_MAX 0x7fffffffu /* above: not registered, or the kernel refused */

static struct rseq_area *rseq_at(ptrdiff_t offset)
{
#if RING_HAVE_RSEQ
	char *thread;

	__asm__("movq %%fs:0, %0" : "=r"(thread));
	return (struct rseq_area *)(thread + offset);
#else
	return NULL;
#endif
}

struct rseq_area *ring_rseq_area(void)
{
	if (!RING_HAVE_RSEQ || &__rseq_size == NULL || &__rseq_offset == NULL || __rseq_size == 0)
		return NULL;
	return rseq_at(__rseq_offset);
}

/* The CPU that the kernel last put this thread on; beyond RSEQ_CPU_ID_MAX if it does not say. */
static uint32_t rseq_cpu(const struct rseq_area *rseq)
{
	return rseq ? __atomic_load_n(&rseq->cpu_id, __ATOMIC_RELAXED) : UINT32_MAX;
}

enum ring_mode ring_mode_choose(enum trace_clock clock)
{
	/* valgrind refuses the system call, then libc says size 0, or the cpu number says it. */
	if (clock != TRACE_CLOCK_TSC || rseq_cpu(ring_rseq_area()) > RSEQ_CPU_ID_MAX)
		return RING_LOCK;
	return RING_RSEQ;
}

static uint64_t clock_ns(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

uint64_t ring_clock(enum trace_clock clock)
{
#if defined(__x86_64__)
	if (clock == TRACE_CLOCK_TSC)
		return RING_TEST_CLOCK_C(__builtin_ia32_rdtsc());
#elif defined(__aarch64__)
	if (clock == TRACE_CLOCK_CNTVCT) {
		uint64_t t;

		/* isb: else the counter may be read long before what is recorded happened. */
		__asm__ volatile("isb\n\tmrs %0, cntvct_el0" : "=r"(t) : : "memory");
		return t;
	}
#endif
	return RING_TEST_CLOCK_C(clock_ns(CLOCK_MONOTONIC));
}

int ring_writer_init(struct ring_writer *w, void *base, uint64_t span,
	const struct control_page *control, enum ring_mode mode, enum trace_clock clock)
{
	const struct pool_header *h = base;
	struct pool_geometry g;

	if (span < POOL_PAGE || h->magic != POOL_MAGIC || h->version != POOL_VERSION ||
		h->features_required != 0)
		return -EPROTO;
	g = h->geometry;
	if (!geometry_valid(&g) || geometry_span(&g) > span)
		return -EPROTO;
	if (mode == RING_RSEQ && ring_mode_choose(clock) != RING_RSEQ)
		return -EPROTO;
	*w = (struct ring_writer){
		.base = base,
		.region_shift = g.region_shift,
		/* Four regions, mapped or not: sub_mask is 0 for those that are not. */
		.pool_mask = (uint32_t)(((uint64_t)POOL_N_REGIONS << g.region_shift) - 1),
		.n_streams = g.n_streams,
		.n_subs = geometry_n_subs(&g),
		.mode = mode,
		.clock = clock,
		.geometry = g,
		.control = control,
	};
	if (mode == RING_LOCK && w->n_streams > RING_LOCK_STREAMS_MAX)
		w->n_streams = RING_LOCK_STREAMS_MAX;
	for (uint32_t c = 0; c < g.n_classes; c++)
		w->sub_mask[c + 1] = (1u << g.class_shift[c]) - 1;
	for (uint32_t ch = 0; ch < POOL_N_CHANNELS; ch++)
		w->lines_off[ch] = geometry_channel_off(&g, ch);
	return 0;
}

/* --- losses ------------------------------------------------------------------------------------- */

void ring_lost_add(struct ring_writer *w, uint32_t ch, enum lost_reason why, uint32_t n)
{
	uint32_t stream = 0;

	if (ch >= POOL_N_CHANNELS || why >= N_LOST_REASONS)
		return;
	if (w->mode == RING_RSEQ)
		stream = rseq_cpu(ring_rseq_area());
	if (stream >= w->n_streams)
		stream = 0;
	ring_lost_count(&ring_writer_lines(w, ch)[stream], why, n);
}

/* --- recording ---------------------------------------------------------------------------------- */

static enum ring_result lost(
	struct ring_writer *w, uint32_t ch, uint32_t stream, enum lost_reason why)
{
	ring_lost_count(&ring_writer_lines(w, ch)[stream < w->n_streams ? stream : 0], why, 1);
	return RING_LOST;
}

#if RING_HAVE_RSEQ

static enum section_result record_once(struct rseq_area *rseq, struct stream_line *lines,
	const struct ring_writer *w, struct section_record *r, bool extended)
{
	return extended ? ring_section_extended(rseq, lines, w, r)
			: ring_section_compact(rseq, lines, w, r);
}

/* All that is not the straight way: r is what the first attempt came back with. */
static __attribute__((noinline)) enum ring_result emit_slow(struct ring_writer *w, uint32_t ch,
	uint32_t id, const void *body, uint32_t body_len, enum section_result r)
{
	struct rseq_area *rseq = rseq_at(__rseq_offset);
	struct section_record compact = { id, body, RECORD_COMPACT + (uint64_t)body_len };
	struct section_record full = { section_head_extended(id), body,
		RECORD_EXTENDED + (uint64_t)body_len };
	bool extended = id >= RECORD_ESCAPE;

	for (int round = 0; round < RING_ROUNDS; round++) {
		uint32_t cpu = rseq_cpu(rseq);

		if (r == SECTION_OK)
			return RING_OK;
		if (r == SECTION_NORSEQ || cpu >= w->n_streams)
			return lost(w, ch, cpu, LOST_NORSEQ);
		if (r == SECTION_EXTENDED)
			extended = true;
		if (r == SECTION_FULL) {
			enum switch_result sw =
				ring_switch_stream(w, ch, cpu, extended ? full.len : compact.len);

			if (sw == SWITCH_NOTHING)
				return lost(w, ch, cpu, LOST_NOBUF);
			if (sw == SWITCH_AGAIN)
				continue;
		}
		r = record_once(
			rseq, ring_writer_lines(w, ch), w, extended ? &full : &compact, extended);
	}
	if (r == SECTION_OK)
		return RING_OK;
	return lost(w, ch, rseq_cpu(rseq), LOST_RETRY);
}

static enum ring_result emit_rseq(
	struct ring_writer *w, uint32_t ch, uint32_t id, const void *body, uint32_t body_len)
{
	struct section_record record = { section_head_compact(id), body,
		RECORD_COMPACT + (uint64_t)body_len };
	enum section_result r = SECTION_EXTENDED;

	if (__builtin_expect(id < RECORD_ESCAPE, 1))
		r = ring_section_compact(
			rseq_at(__rseq_offset), ring_writer_lines(w, ch), w, &record);
	if (__builtin_expect(r == SECTION_OK, 1))
		return RING_OK;
	return emit_slow(w, ch, id, body, body_len, r);
}

#endif

static enum ring_result emit_lock(
	struct ring_writer *w, uint32_t ch, uint32_t id, const void *body, uint32_t body_len)
{
	enum ring_result result = RING_LOST;
	enum lost_reason why = LOST_RETRY;
	struct stream_line *l;
	uint32_t stream;

	l = ring_lock_acquire(ring_writer_lines(w, ch), w->n_streams, &stream);
	if (!l)
		return lost(w, ch, 0, LOST_RETRY);
	INJECT(INJECT_LOCKED);
	for (int round = 0; round < RING_ROUNDS; round++) {
		enum switch_result sw;

		if (ring_lock_record(l, w, id, body, body_len) == SECTION_OK) {
			result = RING_OK;
			break;
		}
		/* The longest that this record may come to need, or it could burn two. */
		sw = ring_switch_stream(w, ch, stream, RECORD_EXTENDED + (uint64_t)body_len);
		if (sw == SWITCH_NOTHING) {
			why = LOST_NOBUF;
			break;
		}
	}
	if (result != RING_OK)
		ring_lost_count(l, why, 1);
	ring_lock_release(l);
	return result;
}

enum ring_result ring_emit(
	struct ring_writer *w, uint32_t ch, uint32_t id, const void *body, uint32_t body_len)
{
#ifndef RING_MUTANT_TOOBIG
	if (__builtin_expect(body_len > RECORD_BODY_MAX, 0)) {
		ring_lost_add(w, ch, LOST_TOOBIG, 1);
		return RING_LOST;
	}
#endif
#if RING_HAVE_RSEQ
	if (__builtin_expect(w->mode == RING_RSEQ, 1))
		return emit_rseq(w, ch, id, body, body_len);
#endif
	return emit_lock(w, ch, id, body, body_len);
}
