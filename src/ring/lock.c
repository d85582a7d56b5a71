/* SPDX-License-Identifier: MIT */
/*
 * The writer's sections where there are no restartable sequences: the stream belongs to the thread
 * that holds its owner word. Plain C11 atomics, any architecture, any clock; section.h has the
 * steps. Nobody ever waits: a busy stream (another thread, or the code that this signal handler
 * interrupted) means the next one, and if all are busy the record is lost and counted.
 *
 * Streams are tried from the first, so that a program uses few of them and their memory. A thread
 * that dies inside a section takes its stream with it until the process ends, and such a thread is
 * rare: only pthread_cancel() of the asynchronous kind, or longjmp() out of a signal handler.
 *
 * Memory orders: (L) owner is taken with acquire and given back with release, so owners of a stream
 * see each other's words. (W1), (W2) as in section.h.
 */

#include <string.h>

#include "ring/inject.h"
#include "ring/section.h"

bool ring_lock_try(struct stream_line *l, uint32_t owner)
{
	uint32_t none = 0;

	/* Look first: a failed exchange would take the cache line from its owner. */
	return atomic_load_explicit(&l->owner, memory_order_relaxed) == 0 &&
	       atomic_compare_exchange_strong_explicit(&l->owner, &none, owner,
		       memory_order_acquire, memory_order_relaxed); /* (L) */
}

struct stream_line *ring_lock_acquire(struct stream_line *lines, uint32_t n, uint32_t *ret_stream)
{
	for (uint32_t i = 0; i < n; i++) {
		if (ring_lock_try(&lines[i], 1)) {
			*ret_stream = i;
			return &lines[i];
		}
	}
	return NULL;
}

void ring_lock_release(struct stream_line *l)
{
	atomic_store_explicit(&l->owner, 0, memory_order_release); /* (L) */
}

/*
 * Time of a record or switch of this stream: never before the last one. Clocks of two CPUs may
 * differ by a few ticks, and a counter may be read ahead of the exchange of owner. A last_ts that
 * is far ahead is rubbish, and is not believed.
 */
static uint64_t lock_clock(const struct stream_line *l, enum trace_clock clock)
{
	uint64_t last = atomic_load_explicit(&l->last_ts, memory_order_relaxed);
	uint64_t ts = ring_clock(clock);

	return ts < last && last - ts < UINT64_C(1) << 24 ? last : ts;
}

static uint8_t *put(uint8_t *at, const void *data, size_t len)
{
	memcpy(at, data, len);
	return at + len;
}

static uint8_t *put_head(uint8_t *at, uint32_t id, uint64_t ts, bool extended)
{
	if (extended) {
		at = put(at, &(uint16_t){ RECORD_ESCAPE }, 2);
		at = put(at, &id, 4);
		return put(at, &ts, 8);
	}
	at = put(at, &(uint16_t){ (uint16_t)id }, 2);
	return put(at, &(uint32_t){ (uint32_t)ts }, 4);
}

enum section_result ring_lock_record(struct stream_line *l, const struct ring_writer *w,
	uint32_t id, const void *body, uint32_t body_len)
{
	uint64_t p = atomic_load_explicit(&l->pos, memory_order_relaxed);
	uint64_t last = atomic_load_explicit(&l->last_ts, memory_order_relaxed);
	uint64_t count = atomic_load_explicit(&l->count, memory_order_relaxed);
	uint64_t ts = lock_clock(l, w->clock), b = pos_par(p);
	bool extended = id >= RECORD_ESCAPE || ts - last >= UINT64_C(1) << 32;
	uint32_t len = (extended ? RECORD_EXTENDED : RECORD_COMPACT) + body_len;
	uint8_t *at = (uint8_t *)w->base + ring_offset(w, p);

	if (!ring_has_room(w, p, len))
		return SECTION_FULL;
	at = put_head(at, id, ts, extended);
	put(at, body, body_len);
	atomic_store_explicit(&l->count, ((count + b) | 1) - b, memory_order_release); /* (W1) */
	INJECT(INJECT_COUNTED);
	atomic_store_explicit(
		&l->pos, (p + len) ^ UINT64_C(1) << 32, memory_order_release); /* (W1) */
	atomic_store_explicit(&l->last_ts, ts, memory_order_relaxed);
	return SECTION_OK;
}

enum section_result ring_lock_switch(const struct ring_switch *s, enum trace_clock clock)
{
	uint64_t old = s->state_old, ts;

	if (atomic_load_explicit(&s->line->pos, memory_order_relaxed) != s->pos_old ||
		atomic_load_explicit(&s->line->next, memory_order_relaxed) != s->next_old ||
		atomic_load_explicit(s->check, memory_order_relaxed) != s->check_value)
		return SECTION_AGAIN;
	atomic_store_explicit(&s->line->next, s->next_new, memory_order_release);
	if (!atomic_compare_exchange_strong_explicit(&s->entry->state, &old, s->state_new,
		    memory_order_seq_cst, memory_order_relaxed))
		return SECTION_AGAIN;
	/* (W2) An exchange alone would let the stores below pass its own store on arm64. */
	atomic_thread_fence(memory_order_seq_cst);
	ts = lock_clock(s->line, clock);
	atomic_store_explicit(&s->entry->close, 0, memory_order_relaxed);
	atomic_store_explicit(&s->entry->begin_ts, ts, memory_order_relaxed);
	*s->header = (struct sub_header){
		.id = s->state_new & ~(UINT64_C(0xfff) << 32),
		.begin_ts = ts,
		.n_before = s->n_before,
		.lost = s->lost,
	};
	if (s->current) {
		atomic_store_explicit(&s->current->end_ts, ts, memory_order_relaxed);
		atomic_store_explicit(&s->current->close, s->close_word, memory_order_relaxed);
	}
	atomic_store_explicit(&s->line->pos, s->pos_new, memory_order_release); /* (W1) */
	atomic_store_explicit(&s->line->last_ts, ts, memory_order_relaxed);
	return SECTION_OK;
}
