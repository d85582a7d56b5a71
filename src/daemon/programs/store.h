/* SPDX-License-Identifier: MIT */
#ifndef VARVE_DAEMON_STORE_H
#define VARVE_DAEMON_STORE_H

/*
 * Packets of dead processes, checked and out of everybody's reach: one store per session.
 *
 * The daemon moves a dead pool one sub-buffer at a time: store_take() copies and verifies, then the
 * daemon takes the sub-buffer back. All sizes count the store's own overhead: they are charged to
 * the session's budget. Loop thread, but for what a worker reads of packets while it holds the
 * store.
 *
 * The store keeps process_channel.store_bytes, .store_packets, .left_out and .aged of the owners
 * right, and a reference to each process that it has packets of.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "ring/ring.h"

struct session;
struct process;
struct store;

#define STORE_PACKET_OVERHEAD 2048u /* bytes that a packet costs besides its own, at most */

struct store *store_new(struct session *s); /* NULL without memory */
void store_clear(struct store *st);	    /* drops all: the session is destroyed */
/* Accepts NULL. Whatever it has left goes with it; its processes may be gone already. */
void store_free(struct store *st);

/*
 * Copies and verifies a listed packet of p's pool (p is dead), and keeps it if it has a record.
 * 0, also where it was bad (counted as left out); -ENOMEM: nothing kept.
 */
int store_take(struct store *st, struct process *p, const struct ring_packet *k);

uint64_t store_used(const struct store *st);

/* Calls visit for each uid that has dead here, with the bytes of all of them. */
typedef void store_party_fn(void *arg, uid_t uid, uint64_t used);
void store_parties(const struct store *st, store_party_fn *visit, void *arg);

/* Drops packets whose last record is older than ts: they are aged. Returns bytes given back. */
uint64_t store_drop_older(struct store *st, uint64_t ts);

/* Drops the oldest packets of a uid until at least bytes are given back, or it has no more: they
 * are overwritten. Returns bytes given back. */
uint64_t store_drop_oldest(struct store *st, uid_t uid, uint64_t bytes);

/* Time of the last record of the packet that ages first; UINT64_MAX if the store is empty. */
uint64_t store_oldest(const struct store *st);

/* --- for snapshots ---------------------------------------------------------------------------- */

/* A packet as it lay in its sub-buffer, so that a copy of a pool and this are read alike. One that
 * was refused is remembered by its place in the stream: it explains a gap. */
struct store_packet {
	struct process *process; /* referenced */
	uint64_t end_ts;	 /* when its sub-buffer ended; of a current one, its last record */
	uint64_t last_ts;	 /* of the last record; decides what is oldest */
	uint32_t idx, stream, gen;
	uint32_t n;	  /* records */
	uint32_t size;	  /* bytes from header on */
	bool open;	  /* was being written when the process died */
	uint32_t refused; /* 1 + enum left_out_reason: no records, header is not to be used */
	struct sub_header header; /* and the records behind it */
	uint8_t records[];
};

/* All packets, in no order. */
typedef void store_visit_fn(void *arg, const struct store_packet *k);
void store_visit(const struct store *st, store_visit_fn *visit, void *arg);
uint32_t store_n_packets(const struct store *st);

/* Keeps all packets where they are until as many releases. Nothing is dropped meanwhile. */
void store_hold(struct store *st);
void store_release(struct store *st);

#endif
