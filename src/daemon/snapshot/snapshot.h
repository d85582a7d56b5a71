/* SPDX-License-Identifier: MIT */
#ifndef VARVE_DAEMON_SNAPSHOT_H
#define VARVE_DAEMON_SNAPSHOT_H

/*
 * A snapshot: what all processes recorded in a session up to one moment, streamed as frames
 * (wire/frames.h) to whoever asked.
 *
 *   loop thread   snapshot_new()    the cut: position of every stream, listing, tallies
 *                 snapshot_send()   starts the worker
 *   worker        copies packets, checks them, writes frames
 *   loop thread   lets go of all that was held
 *
 * Recording goes on meanwhile: a packet that a writer takes in between is left out. Pools and the
 * session's store are held from the cut to the end: nothing is moved or given back, so a receiver
 * that stops reading for SNAPSHOT_STALL_MS loses its snapshot.
 */

#include <stdbool.h>
#include <stdint.h>

struct daemon;
struct session;
struct snapshot;

#define SNAPSHOT_STALL_MS 10000u
#define SNAPSHOTS_MAX	  2u /* at a time */

struct snapshot_options {
	uint64_t last_ns; /* leave out what is older; 0: older than the session's window */
	bool allow_empty; /* nothing recorded makes an empty trace, no failure */
};

/*
 * Makes the cut. 0; -ENODATA (nothing recorded), -EBUSY (SNAPSHOTS_MAX are under way), -ENOMEM;
 * then *ret_error is one line for the user (new, owned by the caller; may be NULL without memory).
 */
int snapshot_new(struct daemon *d, struct session *s, const struct snapshot_options *o,
	struct snapshot **ret, char **ret_error);

/* The moment of the cut, in ns of the Unix epoch. */
uint64_t snapshot_taken_at(const struct snapshot *sn);

/* Streams it to fd, which is taken over and closed at the end. Whoever reads it learns there how it
 * ended; the snapshot frees itself. */
void snapshot_send(struct snapshot *sn, int fd);

/* Instead of snapshot_send(). */
void snapshot_free(struct snapshot *sn);

/* The daemon is about to end: makes those under way fail soon. Run the loop until they are done. */
void snapshots_cancel(struct daemon *d);

#endif
