/* SPDX-License-Identifier: MIT */
#ifndef VARVE_RING_SECTION_H
#define VARVE_RING_SECTION_H

/*
 * The critical sections of a writer, whatever makes them exclusive: a restartable sequence on the
 * stream's CPU (section-x86-64.c), or the stream's owner word (lock.c). Both do the same stores in
 * the same order, so that a thread may be killed between any two and the next one goes on:
 *
 * RECORD (lines of the channel, head, body, len)
 *	c = cpu; c >= n_streams -> NORSEQ
 *	p = pos[c]; o = off(p) & pool_mask; m = sub_mask[region of o]
 *	(o & m) + len + 7 > m -> FULL        a record and its spill end below the sub-buffer's end,
 *	                                     so pos never names the next sub-buffer
 *	ts = clock
 *	compact form only: ts - last_ts[c] >= 2^32 -> EXTENDED
 *	store header and body at base + o, in whole words
 *	b = par(p); count[c] = ((count[c] + b) | 1) - b        N + 1, whatever a predecessor that
 *	                                                       died before its commit left there
 *	pos[c] = p + len, par flipped        COMMIT
 *	last_ts[c] = ts                      may be missed: it lags, and a lag costs an extended header
 *
 * SWITCH (struct ring_switch, gathered outside)
 *	cpu = s->cpu, pos = s->pos_old, next = s->next_old, *s->check = s->check_value, else AGAIN
 *	next = s->next_new                   first, so that at most one claim per stream is at large,
 *	                                     and anyone on this CPU finds it
 *	CAS s->entry->state: state_old -> state_new, else AGAIN
 *	ts = clock
 *	s->entry: close = 0, begin_ts = ts; s->header: id, ts, n_before, lost
 *	s->current, if any: end_ts = ts, close = s->close_word
 *	pos = s->pos_new                     COMMIT
 *	last_ts = ts
 *
 * Memory orders:
 * (W1) count and pos are stored with release: who reads a pos reads all that it covers, and a
 *      count that is at most one record ahead of it. Partner (C).
 * (W2) the state CAS is a full barrier, not just acquire-release: the stores into the sub-buffer
 *      must not be seen before the new state word. Partner (V).
 * On x86-64 plain stores and a locked instruction are that. Stores of a section that was aborted
 * come before those of the next one on that CPU through the context switch.
 */

#include "ring/ring.h"

#if defined(__x86_64__) && !defined(__ILP32__)
#define RING_HAVE_RSEQ 1
#else
#define RING_HAVE_RSEQ 0
#endif

enum section_result {
	SECTION_OK,
	SECTION_AGAIN,	  /* restarted, or a recheck failed: gather anew */
	SECTION_FULL,	  /* no room: switch */
	SECTION_EXTENDED, /* time went too far for the compact header */
	SECTION_NORSEQ,	  /* no usable cpu number */
};

struct ring_switch {
	struct stream_line *line;
	struct sub_entry *entry;   /* the one to claim */
	struct sub_entry *current; /* the one to finish, or NULL */
	struct sub_header *header; /* of the one to claim */
	_Atomic uint64_t *check;
	uint64_t check_value;
	uint64_t pos_old, pos_new;
	uint64_t next_old, next_new;
	uint64_t state_old, state_new;
	uint64_t close_word;
	uint64_t n_before, lost;
	uint64_t cpu;
};

/* A record as the sections take it: its header's first word without time, its body, its whole
 * length. body is readable to the next word. */
struct section_record {
	uint64_t head;
	const void *body;
	uint64_t len;
};

/* Head words: the compact one leaves its upper 48 bits, the extended one its upper 16 to the time. */
static inline uint64_t section_head_compact(uint32_t id)
{
	return id;
}
static inline uint64_t section_head_extended(uint32_t id)
{
	return RECORD_ESCAPE | (uint64_t)id << 16;
}

/* Offset of p inside the mapping; its sub-buffer's size - 1; whether len bytes and the spill fit. */
static inline uint32_t ring_offset(const struct ring_writer *w, uint64_t p)
{
	return pos_off(p) & w->pool_mask;
}
static inline uint32_t ring_sub_mask(const struct ring_writer *w, uint64_t p)
{
	return w->sub_mask[ring_offset(w, p) >> w->region_shift];
}
static inline bool ring_has_room(const struct ring_writer *w, uint64_t p, uint64_t len)
{
	uint32_t m = ring_sub_mask(w, p);

	return (pos_off(p) & m) + len + (RECORD_SLACK - 1) <= m;
}

/* The caller's rseq area, or NULL if this process has none. */
struct rseq_area {
	uint32_t cpu_id_start;
	uint32_t cpu_id;
	uint64_t rseq_cs;
};
struct rseq_area *ring_rseq_area(void);

#if RING_HAVE_RSEQ
enum section_result ring_section_compact(struct rseq_area *rseq, struct stream_line *lines,
	const struct ring_writer *w, const struct section_record *r);
enum section_result ring_section_extended(struct rseq_area *rseq, struct stream_line *lines,
	const struct ring_writer *w, const struct section_record *r);
enum section_result ring_section_switch(struct rseq_area *rseq, const struct ring_switch *s);
#endif

/* Lock-owned streams. acquire: NULL if all are busy. */
#define RING_LOCK_STREAMS_MAX 8u
#define RING_OWNER_DAEMON     UINT32_C(0xffffffff)
struct stream_line *ring_lock_acquire(struct stream_line *lines, uint32_t n, uint32_t *ret_stream);
bool ring_lock_try(struct stream_line *l, uint32_t owner);
void ring_lock_release(struct stream_line *l);
enum section_result ring_lock_record(struct stream_line *l, const struct ring_writer *w,
	uint32_t id, const void *body, uint32_t body_len);
enum section_result ring_lock_switch(const struct ring_switch *s, enum trace_clock clock);

#endif
