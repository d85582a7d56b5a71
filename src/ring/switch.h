/* SPDX-License-Identifier: MIT */
#ifndef VARVE_RING_SWITCH_H
#define VARVE_RING_SWITCH_H

/*
 * How a writer's stream comes to another sub-buffer when its current one is full: one that is FREE,
 * else one that was promised, else, in flight mode, the pool's oldest.
 */

#include "ring/ring.h"

enum switch_result {
	SWITCHED,	/* or found that somebody else has */
	SWITCH_AGAIN,	/* something moved */
	SWITCH_NOTHING, /* no sub-buffer to be had */
};

/*
 * Finishes the stream's current sub-buffer, if any, and gives it another with room for len bytes.
 * The caller is on the stream's CPU, or was a moment ago, or owns the stream. Wakes the daemon if it
 * sleeps.
 */
enum switch_result ring_switch_stream(
	struct ring_writer *w, uint32_t ch, uint32_t stream, uint64_t len);

/* Lines of a channel, one per stream. */
static inline struct stream_line *ring_writer_lines(const struct ring_writer *w, uint32_t ch)
{
	return (struct stream_line *)(w->base + w->lines_off[ch]);
}

static inline void ring_lost_count(struct stream_line *l, enum lost_reason why, uint32_t n)
{
	atomic_fetch_add_explicit(&l->lost[why], n, memory_order_relaxed);
}

#endif
