/* SPDX-License-Identifier: MIT */
#ifndef VARVE_RING_LAYOUT_H
#define VARVE_RING_LAYOUT_H

/*
 * The shared memory of varve: what lies where, word by word.
 *
 * Two kinds of shared memory exist.
 *
 * The *control file* is the daemon's: it alone writes, every program maps it read-only. It holds
 * one page of facts (struct control_page) and then one 32-bit *enable word* per distinct event.
 *
 * A *pool* is the memory of one process: a sealed, sparse memfd that the daemon makes and both
 * sides map. Its offsets are 32 bits. It is cut into equal regions of 1 << region_shift bytes:
 *
 *   region 0     header, stream lines, table of sub-buffer states
 *   region r>0   the sub-buffers of size class r, each 1 << class_shift[r - 1] bytes
 *
 *   offset 0     +----------------------------------------------+
 *                | struct pool_header                           |
 *   1024         | lines of channel 0, if n_streams <= 16       |  page 0: all that a quiet
 *   2048         | struct sub_entry[0 .. 63]                    |  process costs
 *   4096         +----------------------------------------------+
 *                | struct sub_entry[64 .. n_subs - 1]           |
 *   lines_off    | lines of the other channels (or of all)      |  page aligned
 *                +----------------------------------------------+
 *   1 << shift   | sub-buffers of class 1 ...                   |
 *
 * Sub-buffers are numbered through all classes, class 1 first. Nothing is touched before it is
 * needed: a page that nobody touched costs nothing, and *reading* a hole through a mapping makes
 * it cost a page.
 *
 * Everything here may be rubbish for the reader: the program can write all of its pool. The daemon
 * keeps its own copy of the geometry and of its grants, and believes nothing that it has not
 * checked on a copy.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define POOL_MAGIC   UINT64_C(0x314c4f4f50565256) /* "VRVPOOL1" */
#define POOL_VERSION 1u

#define POOL_PAGE	   4096u
#define POOL_N_CHANNELS	   31u /* one bit each in an enable word; bit 31 means "attach" */
#define POOL_N_CLASSES_MAX 3u  /* regions 1 to 3; region 0 is the header's */
#define POOL_N_REGIONS	   4u
#define POOL_STREAMS_MAX   4096u /* 12 bits of cpu in a state word */
#define POOL_LINES0_OFF	   1024u
#define POOL_LINES0_MAX	   16u /* this many lines of channel 0 fit in page 0 */
#define POOL_TABLE_OFF	   2048u

/* Sub-buffer and record sizes in bytes. */
#define SUB_HEADER_SIZE 32u
#define RECORD_COMPACT	6u  /* u16 id, u32 low timestamp */
#define RECORD_EXTENDED 14u /* u16 0xffff, u32 id, u64 timestamp */
#define RECORD_ESCAPE	0xffffu
#define RECORD_SLACK	8u    /* a writer copies whole words and may spill over the record's end */
#define RECORD_BODY_MAX 4040u /* contexts and payload; header, record and slack fit 4 KiB */

/* Why a record was not made. The order is that of lost[] in a stream line, and of the reports. */
enum lost_reason {
	LOST_NOBUF,	 /* no sub-buffer to be had */
	LOST_TOOBIG,	 /* larger than RECORD_BODY_MAX */
	LOST_RETRY,	 /* gave up after RING_ROUNDS_MAX restarts */
	LOST_NORSEQ,	 /* this thread has no usable rseq area, or a CPU beyond the table */
	LOST_CORRUPT,	 /* the stream's position made no sense */
	LOST_UNATTACHED, /* emitted while the process had no pool */
	N_LOST_REASONS
};

/* Kinds of a sub-buffer's state: see ring.h for who may change which. */
enum sub_kind {
	SUB_ABSENT,   /* no memory behind it, not charged */
	SUB_FREE,     /* memory behind it, holds nothing */
	SUB_ACTIVE,   /* belongs to (channel, cpu, gen): current, orphan or retired */
	SUB_PINNED,   /* retired, and the daemon is reading it */
	SUB_PROMISED, /* charged, memory not yet there: the program populates it, then FREE */
};

/* --- words ------------------------------------------------------------------------------------ */

#define GEN_BITS 31u
#define GEN_MASK 0x7fffffffu

/* a is later than b, serially: right across the wrap of 31 bits. */
static inline bool gen_after(uint32_t a, uint32_t b)
{
	uint32_t d = (a - b) & GEN_MASK;

	return d != 0 && d < (1u << (GEN_BITS - 1));
}

static inline uint32_t gen_next(uint32_t g)
{
	return (g + 1) & GEN_MASK;
}

/* pos: gen:31 | par:1 | off:32, high bits first. */
static inline uint64_t pos_make(uint32_t gen, uint32_t par, uint32_t off)
{
	return (uint64_t)(gen & GEN_MASK) << 33 | (uint64_t)(par & 1) << 32 | off;
}
static inline uint32_t pos_gen(uint64_t p)
{
	return (uint32_t)(p >> 33);
}
static inline uint32_t pos_par(uint64_t p)
{
	return (uint32_t)(p >> 32) & 1;
}
static inline uint32_t pos_off(uint64_t p)
{
	return (uint32_t)p;
}

/* Records ever committed to a stream, for a count and a pos that belong together. */
static inline uint64_t count_records(uint64_t count, uint64_t pos)
{
	return count - ((count ^ pos_par(pos)) & 1);
}

/* next and close: gen:32 | idx or size:32. */
static inline uint64_t pair_make(uint32_t gen, uint32_t low)
{
	return (uint64_t)gen << 32 | low;
}
static inline uint32_t pair_gen(uint64_t w)
{
	return (uint32_t)(w >> 32);
}
static inline uint32_t pair_low(uint64_t w)
{
	return (uint32_t)w;
}
#define SUB_NONE 0xffffffffu

/* state: kind:3 | ch:5 | cpu:12 | ver:12 | gen:32. */
static inline uint64_t state_make(
	enum sub_kind kind, uint32_t ch, uint32_t cpu, uint32_t ver, uint32_t gen)
{
	return (uint64_t)kind << 61 | (uint64_t)(ch & 31) << 56 | (uint64_t)(cpu & 0xfff) << 44 |
	       (uint64_t)(ver & 0xfff) << 32 | (gen & GEN_MASK);
}
static inline enum sub_kind state_kind(uint64_t s)
{
	return (enum sub_kind)(s >> 61);
}
static inline uint32_t state_ch(uint64_t s)
{
	return (uint32_t)(s >> 56) & 31;
}
static inline uint32_t state_cpu(uint64_t s)
{
	return (uint32_t)(s >> 44) & 0xfff;
}
static inline uint32_t state_ver(uint64_t s)
{
	return (uint32_t)(s >> 32) & 0xfff;
}
static inline uint32_t state_gen(uint64_t s)
{
	return (uint32_t)s & GEN_MASK;
}

/* --- a pool ----------------------------------------------------------------------------------- */

/* One per (channel, stream). A stream is a CPU, or, without rseq, one of a few owned by lock. */
struct stream_line {
	_Atomic uint64_t pos;	  /* THE commit word */
	_Atomic uint64_t next;	  /* claim hint */
	_Atomic uint64_t last_ts; /* time of the last record; may lag, never leads */
	_Atomic uint64_t count;	  /* see count_records() */
	_Atomic uint32_t lost[N_LOST_REASONS];
	_Atomic uint32_t owner; /* lock-owned streams only: tid, 0 for none */
	uint32_t reserved;
};
_Static_assert(sizeof(struct stream_line) == 64, "a stream is one cache line");

/* One per sub-buffer. */
struct sub_entry {
	_Atomic uint64_t state;
	_Atomic uint64_t close;	   /* size of the finished sub-buffer, tied to its gen */
	_Atomic uint64_t begin_ts; /* time of the switch that began it */
	_Atomic uint64_t end_ts;   /* time of the switch that ended it */
};
_Static_assert(sizeof(struct sub_entry) == 32, "two entries share a cache line");

/* First bytes of every sub-buffer that was ever claimed. */
struct sub_header {
	uint64_t id;	   /* state word of its life, with ver = 0 */
	uint64_t begin_ts; /* as in the entry */
	uint64_t n_before; /* records committed to the stream before this sub-buffer */
	uint64_t lost;	   /* sum of the stream's lost[] at that moment */
};
_Static_assert(sizeof(struct sub_header) == SUB_HEADER_SIZE, "fixed by the format");

/* What both sides compute offsets from. Plain numbers: each side keeps its own checked copy. */
struct pool_geometry {
	uint32_t region_shift; /* 20 to 30 */
	uint32_t n_streams;    /* lines per channel */
	uint32_t n_classes;
	uint32_t class_shift[POOL_N_CLASSES_MAX]; /* ascending, 12 to region_shift */
	uint32_t n_subs[POOL_N_CLASSES_MAX];
};

struct pool_channel {
	_Atomic uint32_t freed;	  /* hint: grants made so far (daemon) */
	_Atomic uint32_t scanned; /* hint: freed when a scan last found nothing free (writers) */
};

struct pool_header {
	uint64_t magic;
	uint32_t version;
	uint32_t header_size;	    /* sizeof(struct pool_header); a newer one may be larger */
	uint64_t features_required; /* unknown bit here: do not use the pool */
	uint64_t features_optional; /* unknown bit here: ignore */
	uint64_t cookie;	    /* names this pool; random, never 0 */
	struct pool_geometry geometry;
	_Atomic uint32_t channels; /* bit per channel: this process records into it (daemon) */
	_Atomic uint32_t flight;   /* bit per channel: overwrite the oldest (daemon) */
	_Atomic uint32_t n_used[POOL_N_CLASSES_MAX]; /* no index at or above was ever granted */
	uint32_t reserved;
	struct pool_channel channel[POOL_N_CHANNELS];
};
_Static_assert(sizeof(struct pool_header) <= POOL_LINES0_OFF, "the header ends before the lines");

static inline uint32_t geometry_n_subs(const struct pool_geometry *g)
{
	uint32_t n = 0;

	for (uint32_t c = 0; c < g->n_classes; c++)
		n += g->n_subs[c];
	return n;
}

static inline uint32_t geometry_lines_off(const struct pool_geometry *g)
{
	uint32_t end = POOL_TABLE_OFF + geometry_n_subs(g) * (uint32_t)sizeof(struct sub_entry);

	return (end + POOL_PAGE - 1) & ~(POOL_PAGE - 1);
}

/* Offset of the first line of a channel; that of stream s is s lines further. */
static inline uint32_t geometry_channel_off(const struct pool_geometry *g, uint32_t ch)
{
	uint32_t line = (uint32_t)sizeof(struct stream_line);

	if (g->n_streams > POOL_LINES0_MAX)
		return geometry_lines_off(g) + ch * g->n_streams * line;
	return ch == 0 ? POOL_LINES0_OFF : geometry_lines_off(g) + (ch - 1) * g->n_streams * line;
}

static inline uint32_t geometry_entry_off(uint32_t idx)
{
	return POOL_TABLE_OFF + idx * (uint32_t)sizeof(struct sub_entry);
}

/* Bytes of region 0 that hold something: header, table, lines. A multiple of the page size. */
static inline uint32_t geometry_header_len(const struct pool_geometry *g)
{
	uint32_t end = geometry_channel_off(g, POOL_N_CHANNELS - 1) +
		       g->n_streams * (uint32_t)sizeof(struct stream_line);

	return (end + POOL_PAGE - 1) & ~(POOL_PAGE - 1);
}

/* Bytes of address space of the whole pool. */
static inline uint64_t geometry_span(const struct pool_geometry *g)
{
	return (uint64_t)(g->n_classes + 1) << g->region_shift;
}

/* Index of the first sub-buffer of a class. */
static inline uint32_t geometry_class_first(const struct pool_geometry *g, uint32_t class)
{
	uint32_t n = 0;

	for (uint32_t c = 0; c < class; c++)
		n += g->n_subs[c];
	return n;
}

/* Class (from 0) of a sub-buffer. idx must be below geometry_n_subs(). */
static inline uint32_t geometry_class(const struct pool_geometry *g, uint32_t idx)
{
	uint32_t c = 0;

	while (idx >= g->n_subs[c])
		idx -= g->n_subs[c++];
	return c;
}

static inline uint32_t geometry_sub_size(const struct pool_geometry *g, uint32_t idx)
{
	return 1u << g->class_shift[geometry_class(g, idx)];
}

static inline uint32_t geometry_sub_off(const struct pool_geometry *g, uint32_t idx)
{
	uint32_t c = 0;

	while (idx >= g->n_subs[c])
		idx -= g->n_subs[c++];
	return ((c + 1) << g->region_shift) + (idx << g->class_shift[c]);
}

/* Index of the sub-buffer in which an offset lies; SUB_NONE for the header's region and beyond. */
static inline uint32_t geometry_idx(const struct pool_geometry *g, uint32_t off)
{
	uint32_t r = off >> g->region_shift, before = 0, i;

	if (r == 0 || r > g->n_classes)
		return SUB_NONE;
	for (uint32_t c = 0; c < r - 1; c++)
		before += g->n_subs[c];
	i = (off & ((1u << g->region_shift) - 1)) >> g->class_shift[r - 1];
	return i < g->n_subs[r - 1] ? before + i : SUB_NONE;
}

/* Whether a geometry is one that this code can compute with; says nothing about who wrote it. */
bool geometry_valid(const struct pool_geometry *g);

/* --- the control file ------------------------------------------------------------------------- */

#define CONTROL_MAGIC	UINT64_C(0x314c525443565256) /* "VRVCTRL1" */
#define CONTROL_VERSION 1u
#define CONTROL_N_WORDS (1u << 20) /* indexes are never used twice in the life of the file */
#define CONTROL_SIZE	(POOL_PAGE + CONTROL_N_WORDS * 4u)

#define WORD_ATTACH (1u << 31) /* a daemon listens that does not know this process yet */

enum trace_clock {
	TRACE_CLOCK_MONOTONIC = 1, /* clock_gettime(CLOCK_MONOTONIC), ns */
	TRACE_CLOCK_TSC = 2,	   /* x86 time-stamp counter */
	TRACE_CLOCK_CNTVCT = 3,	   /* arm64 virtual counter */
};

/* What a program should wake the daemon for. */
enum daemon_sleep {
	DAEMON_AWAKE,  /* nothing: it looks soon by itself */
	DAEMON_ASLEEP, /* any switch */
	DAEMON_DOZING, /* a switch that found nothing free: it would look within a second */
};

struct control_page {
	uint64_t magic;
	uint32_t version;
	uint32_t n_words;	 /* CONTROL_N_WORDS */
	_Atomic uint64_t epoch;	 /* of the registry in force: ids are good within one epoch */
	_Atomic uint32_t clock;	 /* enum trace_clock */
	_Atomic uint32_t asleep; /* enum daemon_sleep: a futex */
	_Atomic uint32_t next;	 /* first index never handed out, at least 1 */
	uint32_t reserved;
};

/*
 * The enable word of event i lies at POOL_PAGE + 4 * i: a bit per channel. Word 0 belongs to no
 * event: it serves all events of a process that has no index for them, and its bit 31 is set while
 * a daemon listens.
 */

#endif
