/* SPDX-License-Identifier: MIT */
#ifndef VARVE_DAEMON_PROCESS_H
#define VARVE_DAEMON_PROCESS_H

/*
 * A process that said hello, alive or dead, and what it recorded into each channel.
 *
 * Life: alive with a pool -> dead with a pool (its packets are moved into the sessions' stores, a
 * few at a time; not while a worker reads the pool) -> dead without -> forgotten, when no store has
 * a packet of it and no one a reference.
 *
 * References are taken and dropped on the loop thread alone (a worker's: before uv_queue_work and
 * in its after-callback). A held process is not freed; a held pool is neither freed nor moved.
 * The store holds a reference per process that it has packets of.
 *
 * Exactness, per process and channel, over its streams:
 *   committed = sum of N now (or final) - base
 *   committed = kept events + aged + consumed + left_out + overwritten
 * where overwritten is the rest.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/list.h"
#include "daemon/memory/pool.h"
#include "ring/ring.h"
#include "wire/wire.h"

#define PROCESS_POOLS_MAX 8u /* of one pid; another one sends the oldest to the dead */

struct daemon;
struct session;
struct watch;

/* What one process did in one channel (session). */
struct process_channel {
	uint32_t serial; /* of the session that this is about; another one's are stale */
	uint64_t base;	 /* sum of N when the session began here: an earlier session's */
	uint64_t lost_base[N_LOST_REASONS];
	uint64_t aged; /* records taken back or dropped because older than the window */
	uint64_t consumed;
	uint64_t left_out[N_LEFT_OUT_REASONS]; /* of packets that the store refused */
	uint64_t store_bytes;	/* in the session's store, its overhead included (store.c) */
	uint32_t store_packets; /* (store.c) */
	/* Once the pool is gone: */
	uint64_t *final_n; /* owned: N of each stream, n_streams of them */
	uint64_t final_lost[N_LOST_REASONS];
};

struct process {
	struct list link; /* daemon->processes, in order of hello */
	struct daemon *daemon;
	uint32_t refs;
	uint64_t serial; /* never used twice */

	pid_t pid, ppid;
	uid_t uid;
	char name[16]; /* NUL-terminated, valid UTF-8 */
	char *exe;     /* owned; as the program says, valid UTF-8; NULL if it says nothing */
	bool alive;
	uint64_t started_at; /* of the hello; trace clock */
	uint64_t ended_at;   /* 0 while alive */
	bool end_known;
	int end_status; /* as of waitpid(), if end_known */

	struct pool *pool; /* owned; NULL once moved */
	uint32_t n_streams;
	struct process_channel *channel[POOL_N_CHANNELS]; /* owned; NULL: never in that session */
	struct watch *watch;				  /* owned: its pidfd in the loop */
	bool watched_end; /* dead, and its exit status is not to come any more */
};

/* --- for readers (status, snapshots, the store) --------------------------------------------------- */

/* Tallies of this process in the session, or NULL if it was never in it. */
struct process_channel *process_tally(const struct process *p, const struct session *s);

/* N of a stream, and its pos if wanted (0 once the pool is gone). Touches no page that the program
 * has not touched. */
uint64_t process_records(
	const struct process *p, const struct session *s, uint32_t stream, uint64_t *ret_pos);

/* Records committed in this session, by all streams. */
uint64_t process_committed(const struct process *p, const struct session *s);

/* Calls lost, by reason. */
void process_lost(
	const struct process *p, const struct session *s, uint64_t ret_lost[N_LOST_REASONS]);

/* Bytes of memory that it has of the session: grants and store, but not what is only promised. */
uint64_t process_used(const struct process *p, const struct session *s);

struct process *process_ref(struct process *p);
struct process *process_unref(struct process *p); /* NULL */

/* Holds the pool where it is, for a worker; the process too. NULL if it has none (any more). */
struct pool *process_hold_pool(struct process *p);
void process_release_pool(struct process *p);

/* --- for the daemon ------------------------------------------------------------------------------- */

struct process_identity {
	pid_t pid;
	uid_t uid;
	int pidfd; /* taken over on success */
};

/*
 * Enters a new process with a new pool, with the minimum of every active session promised.
 * 0; -EDQUOT; -ENOMEM; other -errno.
 */
int process_new(struct daemon *d, const struct process_identity *id, const struct wire_hello *h,
	const char *exe, size_t exe_len, struct process **ret);

/* The living process of this pid with a pool of this cookie, or NULL. */
struct process *process_find(const struct daemon *d, pid_t pid, uint64_t cookie);

/* It never got its pool: undo process_new(). */
void process_discard(struct process *p);

/* Lets it take part in an active session, or no more. */
int process_join(struct process *p, struct session *s);
void process_leave(struct process *p, struct session *s);

/* Its pool is empty and goes: keeps the counts that it had. */
void process_drop_pool(struct process *p);

/* Frees it if it is dead, moved, and neither referenced nor in a store. */
bool process_forget(struct process *p);

/* At the daemon's end: as it is. */
void process_free(struct process *p);

#endif
