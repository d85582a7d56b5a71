/* SPDX-License-Identifier: MIT */
#ifndef VARVE_RING_RING_H
#define VARVE_RING_RING_H

/*
 * The ring: writers and the daemon over one pool, without locks between them.
 *
 * States of a sub-buffer, and who may change each (always by CAS on the state word, ver + 1):
 *
 *                 daemon: grant (memory made first)
 *     ABSENT ------------------------------------> FREE -----------+
 *       ^ | ^ ^       program: populate             ^ ^            | writer on CPU c,
 *       | | | +------ daemon ----- PROMISED --------+ |            | in its section:
 *       | | +---------- daemon: revoke ---------------+            | claim
 *       | |   daemon: promise ---> PROMISED           |            v
 *       | +------------------------------             |         ACTIVE(ch, cpu, gen)
 *       |                                             |          |  |   |
 *       |         daemon: reclaim (RETIRED only)      |          |  |   | writer: claim again,
 *       +------------------------------------------- | ---------+  |   | RETIRED only, oldest
 *                                                     |   daemon:   v   | first (flight mode)
 *                                                     +--------- PINNED +--> ACTIVE(.., gen')
 *                                                      consume    | ^
 *                                                          unpin  v | pin (RETIRED only)
 *                                                               ACTIVE, same gen
 *
 * With q = pos of its stream, an ACTIVE(ch, cpu, g) sub-buffer i is
 *   CURRENT   pos_gen(q) == g and pos names i: records are being added
 *   ORPHAN    g is after pos_gen(q): claimed, not yet committed, empty; only CPU cpu may touch it
 *   RETIRED   else: finished, and stays so while the state word stays
 * The daemon never touches CURRENT and ORPHAN ones of a pool that has a writer left, but for
 * ring_retire(), which runs the writers' own switch on the stream's CPU.
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
	char *base; /* the mapping, geometry_span() bytes; shared */
	uint32_t region_shift, pool_mask;  /* from geometry */
	uint32_t sub_mask[POOL_N_REGIONS]; /* size - 1 by region; 0 where there is none */
	uint32_t n_streams;		   /* in use: in RING_LOCK pools fewer than there are lines */
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
	int fd;	     /* owned */
	void *map;   /* owned: region 0 up to map_len */
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
int ring_pool_open(struct ring_pool *p, int fd_take, const struct pool_geometry *g, uint64_t cookie);
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
int ring_grant(struct ring_pool *p, uint32_t idx, uint32_t ch);	  /* ABSENT -> FREE */
int ring_promise(struct ring_pool *p, uint32_t idx, uint32_t ch); /* ABSENT -> PROMISED */
int ring_revoke(struct ring_pool *p, uint32_t idx);		  /* FREE, PROMISED -> ABSENT */
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
uint64_t ring_stream_records(const struct ring_pool *p, uint32_t ch, uint32_t stream, uint64_t *ret_pos);
/* Adds a stream's loss counters to sum[N_LOST_REASONS]. */
void ring_stream_lost(const struct ring_pool *p, uint32_t ch, uint32_t stream, uint64_t *sum);

/*
 * Ends the CURRENT sub-buffer of a silent stream, whose pos has been seen unchanged since a silence
 * period ago. In RING_RSEQ pools the calling thread must be pinned to CPU stream; in RING_LOCK
 * pools it takes the stream's lock, one try. 0, or RING_BUSY (the stream moved, holds nothing, or
 * was interrupted: leave it for the next tick), or -ENOTSUP (no rseq in this thread).
 */
int ring_retire(struct ring_pool *p, uint32_t ch, uint32_t stream, uint64_t pos, enum ring_mode mode,
	enum trace_clock clock);

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
uint32_t ring_list(const struct ring_pool *p, uint32_t ch, const uint64_t *cuts, struct ring_packet *ret);

/*
 * Copies a listed packet into buf (its sub-buffer's size bytes of room). 0; RING_BUSY if it was
 * overwritten or taken meanwhile, then buf is rubbish; -errno if it could not be read.
 */
int ring_copy(const struct ring_pool *p, const struct ring_packet *k, void *buf);

/* Why a copied packet or record is not believed; the order is that of the reports. */
enum left_out_reason { LEFT_BAD_HEADER, LEFT_BAD_RECORD, LEFT_BAD_TIME, LEFT_RACED, N_LEFT_OUT_REASONS };

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
int ring_verify(const struct ring_packet *k, const void *copy, uint64_t now, ring_body_len_fn *body_len,
	ring_record_fn *record, void *arg, uint32_t *ret_n, uint64_t *ret_last_ts);

#endif
