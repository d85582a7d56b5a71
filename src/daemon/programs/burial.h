/* SPDX-License-Identifier: MIT */
#ifndef VARVE_DAEMON_BURIAL_H
#define VARVE_DAEMON_BURIAL_H

/*
 * The death of processes. A pidfd in the loop tells it; then the packets of the pool are moved into
 * the sessions' stores, oldest first, a few at a time between other work, and the pool goes. While a
 * worker reads the pool, it stays as it is. The pidfd stays until the dead one is reaped, for only
 * then does the kernel tell its status.
 *
 * The dead without packets are kept for the reports until the longest window is over, but not more
 * than BURIAL_NAMES_MAX of them.
 */

#include "daemon/programs/process.h"

#define BURIAL_NAMES_MAX 4096u

struct daemon;

int burial_init(struct daemon *d);
void burial_fini(struct daemon *d); /* the loop must run once more */

/* Watches a living process. Takes the pidfd over. 0 or -errno, then the pidfd is the caller's. */
int burial_watch(struct process *p, int pidfd);
void burial_unwatch(struct process *p);

/* It is dead: its pool is to be moved. */
void burial_died(struct process *p);

/* A pool that had to wait may be moved now. */
void burial_resume(struct daemon *d);

/* Forgets the dead of whom nothing is left to tell. */
void burial_forget_old(struct daemon *d, uint64_t now);

#endif
