/* SPDX-License-Identifier: MIT */
#ifndef VARVE_DAEMON_RUNDIR_H
#define VARVE_DAEMON_RUNDIR_H

/*
 * The run directory: lock, control file, sockets. Whoever has the lock is the daemon there.
 *
 *   DIR/lock       locked (flock) by the daemon; holds its pid
 *   DIR/control    the control file, CONTROL_SIZE bytes, sparse; never unlinked: programs that run
 *                  keep it mapped, and meet the next daemon through it
 *   DIR/app.sock   SOCK_SEQPACKET, 0666: programs
 *   DIR/ctl.sock   SOCK_STREAM, 0666: the command line; who may do what is checked per connection
 */

#include <stdint.h>
#include "ring/layout.h"

struct rundir {
	char *path;		      /* owned */
	int lock_fd;		      /* owned */
	int app_fd;		      /* owned: bound and listening, nonblocking */
	int ctl_fd;		      /* owned: bound and listening, nonblocking */
	struct control_page *control; /* owned mapping of CONTROL_SIZE bytes */
	_Atomic uint32_t *words;      /* in it: CONTROL_N_WORDS enable words */
};

/* /run/varve if it is there and ours to write, else $XDG_RUNTIME_DIR/varve. New string, or NULL. */
char *rundir_default(void);

/*
 * Takes the directory (made if missing, 0755), sets a new epoch, and bit 31 of every word handed
 * out before. 0 or -errno with one line in *ret_error.
 */
int rundir_init(struct rundir *r, const char *path, enum trace_clock clock, char **ret_error);
/* Now programs may come: bit 31 of word 0. */
void rundir_listening(struct rundir *r);
/* Removes the sockets, clears bit 31 of word 0. */
void rundir_fini(struct rundir *r);

#endif
