/* SPDX-License-Identifier: MIT */
#ifndef VARVE_LIB_OBJECTS_H
#define VARVE_LIB_OBJECTS_H

/*
 * The loaded objects that have events, and what their events know. All calls under the process
 * lock, but for objects_unsent(). The list itself outlives a fork.
 *
 * The enable word that an event reads is
 *   its own                       once the daemon gave it an index;
 *   word 0 of the control file    while we have not asked; its bit 31 tells that a daemon listens;
 *   a word that is always zero    where there is no control file, or the daemon refused the event.
 */

#include <stdbool.h>
#include <stdint.h>
#include <varve/abi.h>

/* False if its range is there already, from another unit of the same object. */
bool objects_add(struct varve_object *o);
void objects_remove(struct varve_object *o);

/* Whether an object has joined since all were told to the daemon. Any time. */
bool objects_unsent(void);

/* Gives word 0 to the events that have no index. */
void objects_await(void);

/* All ids are void: the registry that they are from is gone. */
void objects_forget(void);

/*
 * A walk over the events to be told to the registry of an epoch: those of objects that were not
 * told yet (of all of them after objects_forget()), but for the ones that the wire has no room for.
 */
struct objects_walk {
	uint64_t epoch;
	struct varve_object *object;
	struct varve_event **next;
};
void objects_walk_init(struct objects_walk *w, uint64_t epoch);
const struct varve_event *objects_walk_next(struct objects_walk *w);
/* The same, for the ids that come back. */
void objects_walk_assign(struct objects_walk *w, uint32_t id);

/* How many events such a walk meets. */
uint32_t objects_count(uint64_t epoch);
/* All objects are told to the registry of this epoch. */
void objects_sent(uint64_t epoch);

#endif
