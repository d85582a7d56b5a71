/* SPDX-License-Identifier: MIT */
#ifndef VARVE_DAEMON_SNAPSHOT_DATA_H
#define VARVE_DAEMON_SNAPSHOT_DATA_H

/*
 * What a snapshot knows, from the cut on: processes, and the packets that they had. The loop thread
 * fills it at the cut, the worker alone uses it then.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>
#include "base/list.h"
#include "ctf/lanes.h"
#include "ctf/metadata.h"
#include "daemon/clock.h"
#include "daemon/programs/registry.h"
#include "daemon/programs/store.h"
#include "daemon/snapshot/snapshot.h"
#include "ring/ring.h"

/* One stream of a process at the cut. */
struct snapshot_stream {
	uint64_t pos;	  /* 0 once the pool is gone */
	uint64_t n;	  /* records ever committed */
	uint64_t last_ts; /* of the last record, about; 0 if not known */
	uint64_t lost;	  /* calls lost, all reasons; not known once the pool is gone */
};

struct snapshot_process {
	struct process *process; /* referenced; the worker uses what never changes: identity */
	struct pool *pool;	 /* held, or NULL */
	bool alive, end_known;
	int end_status;
	uint64_t started_at, ended_at; /* trace clock */
	uint64_t since;		       /* when it began to record in this session */
	uint64_t pinned_until;	       /* trace clock: see struct pool */
	uint32_t n_streams;
	struct snapshot_stream *streams; /* owned */

	/* The report's numbers: those of the cut, then completed by snapshot_count(). */
	uint64_t committed, lost[N_LOST_REASONS];
	uint64_t lost_base; /* sum of what was lost before the session */
	uint64_t aged, consumed, overwritten, left_out[N_LEFT_OUT_REASONS];
	uint64_t events, bytes;
	uint64_t first_ts, last_ts; /* of the events; 0: none */
	/* Trace clock: records before it have holes that overwriting left, and are left out; 0: there
	 * are none. */
	uint64_t horizon;
	uint64_t complete_since;
};

enum snapshot_outcome {
	PACKET_LISTED,	/* not looked at yet */
	PACKET_KEPT,	/* in the trace */
	PACKET_OLD,	/* older than the window: counted only; n is not known */
	PACKET_REFUSED, /* see reason */
};

struct snapshot_packet {
	struct ring_packet k;		   /* times clamped to sense */
	const struct store_packet *stored; /* where it lies, if not in the pool */
	uint32_t process;		   /* index */
	bool open;			   /* its stream was in it at the end: never overwritten */
	bool pinned;			   /* k.state is what to unpin */
	uint8_t *early;			   /* owned: its copy, if made at the cut; else NULL */
	/* The plan: */
	bool planned;
	uint32_t lane;	 /* number of its file, or CTF_LANE_MERGED */
	uint32_t seq;	 /* in the lane */
	uint64_t offset; /* of the CTF packet in the file */
	uint64_t begin;	 /* of the CTF packet */
	/* What came of it: */
	uint8_t outcome; /* enum snapshot_outcome */
	uint8_t reason;	 /* enum left_out_reason */
	bool maybe_old;	 /* the stream's last time, which may lag, is older than the window */
	bool header_good;
	uint32_t n;		    /* records kept */
	uint32_t trimmed;	    /* records in front of them, older than the window */
	uint32_t bytes;		    /* of the records kept */
	uint64_t first_ts, last_ts; /* of them */
	uint64_t n_before, lost;    /* of the header, if good */
	uint64_t discarded; /* events lost or left out between it and the next of its stream */
};

struct snapshot {
	struct list link; /* daemon->snapshots */
	struct daemon *daemon;
	struct session *session; /* referenced, its store held */
	uv_work_t work;
	int fd; /* owned once sent; -1 */
	atomic_bool cancel;

	struct clock_map map;
	uint64_t now;	/* trace clock: all records are before */
	uint64_t until; /* trace clock: where the window ends: now, or when the session stopped */
	uint64_t keep_since;   /* trace clock: records before it are left out */
	uint64_t window_since; /* trace clock: what is older may have been taken back by age */
	uint64_t window_ns;    /* asked for; UINT64_MAX: none */
	uint64_t budget, used;
	uint64_t session_started_at; /* trace clock */
	struct ctf_trace trace;
	char hostname[65];
	uint32_t ids_first, ids_end; /* event ids that the records can have */
	uint32_t n_processes, n_packets, room_packets;
	struct snapshot_process *processes; /* owned */
	struct snapshot_packet *packets;    /* owned */
	uint64_t early_bytes;		    /* of early copies */
};

static inline uint64_t snapshot_sum(const uint64_t *counts, int n)
{
	uint64_t sum = 0;

	for (int i = 0; i < n; i++)
		sum += counts[i];
	return sum;
}

/* Lets writers have a pinned packet again. */
void snapshot_unpin(const struct snapshot *sn, struct snapshot_packet *k);

/* The worker: everything from the plan to END, or to ERROR. */
void snapshot_write(struct snapshot *sn);

/*
 * Fills in the processes' numbers and the packets' discarded counts, once every packet has its
 * outcome. Sorts the packets by process, stream and gen. What the horizons make of it is left to
 * the caller.
 */
void snapshot_count(struct snapshot *sn);

#endif
