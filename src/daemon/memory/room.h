/* SPDX-License-Identifier: MIT */
#ifndef VARVE_DAEMON_MEMORY_ROOM_H
#define VARVE_DAEMON_MEMORY_ROOM_H

/*
 * Memory for who cannot wait for the next tick: newcomers, and packets of the dead. It is taken one
 * sub-buffer at a time, from the process that has most, or from the store where that has more than
 * half of the budget, and punched at once.
 */

#include <stdbool.h>
#include <stdint.h>

struct process;
struct session;

/* Makes the session's use fall to at least bytes below its budget. False: it cannot. */
bool room_make(struct session *s, uint64_t bytes);

/* Promises a process its minimum of a session, and an advance, if there is plenty. */
void room_minimum(struct process *p, struct session *s);

#endif
