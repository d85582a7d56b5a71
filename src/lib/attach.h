/* SPDX-License-Identifier: MIT */
#ifndef VARVE_LIB_ATTACH_H
#define VARVE_LIB_ATTACH_H

/*
 * Attaching: when it is tried, how long it may take, and what it does.
 *
 *   at the first registration of events    up to VARVE_ATTACH_MS (50)
 *   at a later one (dlopen)                 what is left of that
 *   from an event call, first in a child    up to VARVE_ATTACH_MS, once
 *   from an event call else                 1 ms, at most every 100 ms
 *
 * and never in an event call of a process under a seccomp filter, where a system call may be death.
 * A daemon that will not have us is asked less and less often; one that did not answer in time too,
 * and is given more time then, always 1 % (a busy machine may need more than 1 ms), up to 8 ms.
 */

#include "lib/process.h"

/* With the process lock held, in a constructor: tells the daemon what is new. */
void attach_registered(struct process *p);

/*
 * For an event call that found bit 31 set, or no pool. Returns the pool to write to: that of the
 * daemon in force; NULL if there is none, and the event is lost. Spoils errno.
 */
struct attached *attach_from_event(struct process *p);

#endif
