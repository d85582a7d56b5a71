/* SPDX-License-Identifier: MIT */
#ifndef VARVE_RING_RING_H
#define VARVE_RING_RING_H

/*
 * The ring: writers and the daemon over one pool, without a lock between them.
 *
 * A stream (channel x CPU) writes records into one sub-buffer at a time, its current one. When that
 * is full, it claims another: a FREE one, else a PROMISED one, else, in flight mode, the oldest
 * that is finished. Each record is committed by one 64-bit store to the stream's pos, so a thread
 * may be killed at any instruction: the record is there, or it is not.
 *
 * States of a sub-buffer. Each change is a CAS on its state word, with ver + 1; D: by the daemon,
 * P: by the program, outside a section; W: by a writer on CPU cpu, inside its section.
 *
 *                D grant: memory is made first
 *       +-------------------------------------------+
 *       |                                           v
 *    ABSENT <----------- D revoke ---------------- FREE <------------+
 *     ^ ^ |                                        ^ |               |
 *     | | +-- D promise --> PROMISED -- P populate-+ | W claim       |
 *     | +---- D revoke ------- |                     v               |
 *     |                                      ACTIVE(ch, cpu, gen)    |
 *     |                                   ORPHAN: claimed, then      |
 *     |                                  CURRENT: committed, then    | D consume
 *     +---------- D reclaim ------------ RETIRED --+  ^  ^           |
 *                 (punched later)          |       |  |  |           |
 *                                          |       +--+  | D unpin   |
 *                                          |    W claim  |           |
 *                                          |  of a new   |           |
 *                                          |     life    |           |
 *                                          +-- D pin --> PINNED -----+
 *
 * What an ACTIVE one is follows from its word and the stream's pos q, no state of its own:
 *    CURRENT   pos_gen(q) == gen, and pos names it: records are being added
 *    ORPHAN    gen is after pos_gen(q): claimed, not yet committed, empty; only CPU cpu may touch it
 *    RETIRED   else: finished. It stays so while the word stays, since gens only grow; so "read the
 *              word, read pos, CAS from the word" is free of races
 * The daemon never touches CURRENT and ORPHAN ones of a pool that has a writer left, but by
 * ring_retire(), which runs the writers' own section on the stream's CPU.
 *
 * Who may change which word:
 *    pos, next, count, last_ts, close, begin_ts, end_ts   writers, inside a section of that stream
 *                                     (close also the daemon while it has the sub-buffer PINNED)
 *    lost                             anybody, by atomic addition
 *    owner                            whoever takes a lock-owned stream, by CAS from 0
 *    n_used, channels, flight, freed  the daemon;  scanned: writers
 *
 * Memory orders are lettered where they are used; each letter names its partner there:
 *    (W1) commit: pos by store-release     <-> (C) readers, (Q) other writers: load-acquire
 *    (W2) claim: CAS and a full barrier    <-> (V) copy, acquire fence, look at state again
 *    (P)  daemon's CAS, release            <-> (S) writers' load-acquire of state
 *    (N)  n_used, release before the grant <-> (N) load-acquire before the table is walked
 *    (L)  owner: acquire, release          <-> (L)
 */

#include <stdint.h>
#include "ring/layout.h"

#define RING_ROUNDS_MAX 200 /* single-stepping debuggers restart a section for ever */

/* --- writers (in the traced program; async-signal-safe, no system call but as said) ------------- */

enum ring_mode {
	RING_RSEQ, /* per-CPU streams, restartable sequences */
	RING_LOCK, /* a few streams owned by lock; pools of one process only */
};

/* A process's private view of its pool. Lives in memory that a fork wipes: base is then NULL. */
struct ring_writer {
	char *base;			   /* the mapping, geometry_span() bytes; shared */
	uint32_t region_shift, pool_mask;  /* from geometry */
	uint32_t sub_mask[POOL_N_REGIONS]; /* size - 1 by region; 0 where there is none */
	uint32_t n_streams; /* in use: in RING_LOCK pools fewer than there are lines */
	uint32_t n_subs;
	enum ring_mode mode;
	enum trace_clock clock;
	uint32_t lines_off[POOL_N_CHANNELS];
	struct pool_geometry geometry;	    /* checked copy */
	const struct control_page *control; /* shared, read-only; may be NULL */
	/* CLOCK_MONOTONIC_COARSE in ns of the last wake of the daemon, and of the last time that a
	 * promised sub-buffer could not be had. */
	_Atomic uint64_t woken_at, refused_at;
};

/* The mode that this process can use with this clock: RING_RSEQ needs a registered rseq area and a
 * clock that can be read inside a section. */
enum ring_mode ring_mode_choose(enum trace_clock clock);

/* Reads the clock. */
uint64_t ring_clock(enum trace_clock clock);

/*
 * Sets up w over a mapped pool. Checks magic, version, features and geometry against span.
 * 0, or -EPROTO if the pool is not one that this code can use.
 */
int ring_writer_init(struct ring_writer *w, void *base, uint64_t span,
	const struct control_page *control, enum ring_mode mode, enum trace_clock clock);

enum ring_result {
	RING_OK,
	RING_LOST, /* not recorded; counted in the stream's lost[] */
};

/*
 * Records event id with body_len bytes of contexts and payload at body on channel ch.
 * body must be readable for RECORD_SLACK bytes beyond body_len. Any thread, any signal handler.
 * May wake the daemon (one futex call per second and process, only while it sleeps), and populates
 * PROMISED sub-buffers (one madvise each, only in the first events of a process).
 * Clobbers errno only through those calls; callers save it.
 */
enum ring_result ring_emit(
	struct ring_writer *w, uint32_t ch, uint32_t id, const void *body, uint32_t body_len);

/* Adds n to a loss counter of channel ch. */
void ring_lost_add(struct ring_writer *w, uint32_t ch, enum lost_reason why, uint32_t n);

/* --- the daemon's side ------------------------------------------------------------------------ */

/*
 * The daemon's view of one pool. It maps region 0 alone and reads sub-buffers by pread(), so that
 * a program that punches or scribbles can spoil contents only.
 */
struct ring_pool {
	int fd;	   /* owned */
	void *map; /* owned: region 0 up to map_len */
	size_t map_len;
	struct pool_geometry geometry; /* the daemon's own copy: the pool's is never read back */
	uint32_t n_subs;
	uint32_t n_used[POOL_N_CLASSES_MAX]; /* the daemon's own copy, too */
	uint64_t cookie;
	uint8_t *touched; /* owned: per page of map, 1 once it is known to exist */
};

/* Makes a sealed pool of this geometry, page 0 present, all sub-buffers ABSENT. 0 or -errno. */
int ring_pool_init(struct ring_pool *p, const struct pool_geometry *g, uint64_t cookie);
/* Maps an existing pool again, as a new daemon does. 0 or -errno. */
int ring_pool_open(
	struct ring_pool *p, int fd_take, const struct pool_geometry *g, uint64_t cookie);
void ring_pool_fini(struct ring_pool *p);

struct stream_line *ring_line(const struct ring_pool *p, uint32_t ch, uint32_t stream);
struct sub_entry *ring_entry(const struct ring_pool *p, uint32_t idx);
struct pool_header *ring_header(const struct ring_pool *p);

/* Whether the memory of a stream's line exists. If not, all its words are 0: nothing was ever
 * recorded or lost there, and reading through ring_line() would make a page for nothing. */
bool ring_line_exists(const struct ring_pool *p, uint32_t ch, uint32_t stream);

/* Bytes that the pool's memory really takes now (st_blocks). */
uint64_t ring_pool_bytes(const struct ring_pool *p);

/* Transitions. 0; RING_BUSY if the sub-buffer was not in the state that it takes (any more);
 * -errno if memory could not be had. */
#define RING_BUSY 1
int ring_grant(struct ring_pool *p, uint32_t idx, uint32_t ch);	     /* ABSENT -> FREE */
int ring_promise(struct ring_pool *p, uint32_t idx, uint32_t ch);    /* ABSENT -> PROMISED */
int ring_revoke(struct ring_pool *p, uint32_t idx);		     /* FREE, PROMISED -> ABSENT */
int ring_reclaim(struct ring_pool *p, uint32_t idx, uint64_t state); /* RETIRED -> ABSENT */
int ring_pin(struct ring_pool *p, uint32_t idx, uint64_t state, uint64_t *ret_pinned);
int ring_unpin(struct ring_pool *p, uint32_t idx, uint64_t pinned);
int ring_consume(struct ring_pool *p, uint32_t idx, uint64_t pinned); /* PINNED -> FREE */
/* Gives the memory of an ABSENT sub-buffer back. Not at once after a reclaim: a writer may still
 * be asleep in a fault on it. Again whenever ring_pool_bytes() exceeds what was granted. */
int ring_punch(struct ring_pool *p, uint32_t idx);

enum ring_class { RING_CURRENT, RING_ORPHAN, RING_RETIRED, RING_OTHER };

/* What a state word means now. ret_pos, if not NULL, gets the stream's pos that told. */
enum ring_class ring_classify(
	const struct ring_pool *p, uint32_t idx, uint64_t state, uint64_t *ret_pos);

/* Reads pos and the record count that belongs to it, live. Bounded; on a stream that a hostile
 * program keeps changing the last try is returned. */
uint64_t ring_stream_records(
	const struct ring_pool *p, uint32_t ch, uint32_t stream, uint64_t *ret_pos);
/* Adds a stream's loss counters to sum[N_LOST_REASONS]. */
void ring_stream_lost(const struct ring_pool *p, uint32_t ch, uint32_t stream, uint64_t *sum);

/*
 * Ends the CURRENT sub-buffer of a silent stream, whose pos has been seen unchanged since a silence
 * period ago. In RING_RSEQ pools the calling thread must be pinned to CPU stream; in RING_LOCK
 * pools it takes the stream's lock, one try. 0, or RING_BUSY (the stream moved, holds nothing, or
 * was interrupted: leave it for the next tick), or -ENOTSUP (no rseq in this thread).
 */
int ring_retire(struct ring_pool *p, uint32_t ch, uint32_t stream, uint64_t pos,
	enum ring_mode mode, enum trace_clock clock);

/* One packet as the daemon copies it. */
struct ring_packet {
	uint32_t idx;
	uint32_t ch, stream, gen;
	uint64_t state;	   /* the word that the copy is valid for */
	uint64_t begin_ts; /* from the entry; to be checked against the copied header */
	uint64_t end_ts;   /* of a retired one; 0 for a current one */
	uint32_t size;	   /* bytes in use, sub-buffer header included */
	bool current;
};

/*
 * Lists what a channel of a pool holds at this moment, up to the cut: cuts[stream] is the pos of
 * each stream read before (ring_stream_records). Entries come in no order. Returns how many; room
 * for n_subs is enough. Packets of a size that cannot be are listed with size 0.
 */
uint32_t ring_list(
	const struct ring_pool *p, uint32_t ch, const uint64_t *cuts, struct ring_packet *ret);

/*
 * Copies a listed packet into buf (its sub-buffer's size bytes of room). 0; RING_BUSY if it was
 * overwritten or taken meanwhile, then buf is rubbish; -errno if it could not be read.
 */
int ring_copy(const struct ring_pool *p, const struct ring_packet *k, void *buf);

/* Why a copied packet or record is not believed; the order is that of the reports. */
enum left_out_reason {
	LEFT_BAD_HEADER,
	LEFT_BAD_RECORD,
	LEFT_BAD_TIME,
	LEFT_RACED,
	N_LEFT_OUT_REASONS
};

/* One record of a verified copy. */
struct ring_record {
	uint32_t id;
	uint64_t ts;
	const uint8_t *body; /* contexts and payload */
	uint32_t body_len;
};

/* Length in bytes of the body of event id that starts at body, at most avail; 0 if it cannot be. */
typedef uint32_t ring_body_len_fn(void *arg, uint32_t id, const uint8_t *body, uint32_t avail);
typedef void ring_record_fn(void *arg, const struct ring_record *r);

/*
 * Checks a private copy: the header agrees with k, records tile exactly k->size bytes, times never
 * fall, begin at or after begin_ts and end at or before the packet's end (or now, for a current
 * one). Calls record, if not NULL, for each. 0, or 1 + the enum left_out_reason.
 * ret_n: records; ret_last_ts: time of the last, or begin_ts.
 */
int ring_verify(const struct ring_packet *k, const void *copy, uint64_t now,
	ring_body_len_fn *body_len, ring_record_fn *record, void *arg, uint32_t *ret_n,
	uint64_t *ret_last_ts);

#endif
