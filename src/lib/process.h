/* SPDX-License-Identifier: MIT */
#ifndef VARVE_LIB_PROCESS_H
#define VARVE_LIB_PROCESS_H

/*
 * What libvarve knows of the process it lives in.
 *
 * struct process holds all that a child must not inherit. It lies in a page of its own that the
 * kernel wipes in a child, however that was forked: the child finds zero everywhere, no pool, no
 * lock held, and attaches itself at its first enabled event. What a child may keep, the mapping of
 * the control file and the list of objects, is in ordinary variables elsewhere.
 *
 * The lock is a flag that event calls only ever *try*: who finds it taken counts a loss and goes
 * on. Constructors and destructors of objects wait for it; it is held for the time of an attach at
 * most.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "ring/ring.h"

/* A pool that this process has or had. Not changed once it is published, but for emptied. */
struct attached {
	struct ring_writer writer;
	struct pool_header *header; /* in the pool: shared, ours to believe little of */
	uint64_t cookie;
	uint64_t epoch; /* of the registry that the ids of our events are from */
	uint64_t span;
	bool emptied; /* its memory was given back, for another pool has taken its place */
};

/* New daemons that a process may meet before the slot of the oldest pool, in which no thread can
 * be any more, is used again. */
#define PROCESS_POOLS 8

struct process {
	_Atomic(struct attached *) current; /* NULL: not attached */
	_Atomic uint32_t lock;
	uint64_t signals;	     /* that the holder of the lock had blocked before */
	_Atomic uint32_t failed;     /* attempts in a row that came to nothing */
	_Atomic uint64_t unattached; /* events lost since there is no pool, not yet told to one */
	_Atomic int64_t retry_at;    /* no attempt before (CLOCK_MONOTONIC) */
	_Atomic int64_t patience;    /* ns that this process may yet wait for a silent daemon */
	_Atomic uint32_t begun;	     /* patience is set; 0 in a child that has not tried yet */
	int32_t pid;		     /* only where the kernel cannot wipe: whose page this is */
	uint32_t n_pools;	     /* ever made */
	struct attached pools[PROCESS_POOLS];
};

/* NULL before the first object registers, and if there was no memory. Use process_get(). */
extern struct process *process;
/* The kernel cannot wipe the page. */
extern bool process_unwiped;

/* Maps the page, once; reads the environment. Call before anything else. */
void process_init(void);

/* Wipes p if it was a parent's. */
struct process *process_check_pid(struct process *p);

/* This process's page; NULL if there is none. */
static inline struct process *process_get(void)
{
	return __builtin_expect(process_unwiped, 0) ? process_check_pid(process) : process;
}

/* With the lock go all signals: no handler, and no cancellation, takes its holder away. */
bool process_try_lock(struct process *p);
/* Waits; not for ever: after some seconds without the lock it goes on as if it had it. */
void process_lock(struct process *p);
void process_unlock(struct process *p);

/* VARVE_ATTACH_MS in ns. */
int64_t process_patience(void);

#endif
