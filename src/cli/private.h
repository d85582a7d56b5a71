/* SPDX-License-Identifier: MIT */
#ifndef VARVE_CLI_PRIVATE_H
#define VARVE_CLI_PRIVATE_H

/*
 * A varved of our own for one command, in a run directory of its own under TMPDIR (/tmp). It ends
 * with us, also when we are killed; the directory goes with private_stop().
 */

#include <sys/types.h>

struct private_daemon {
	char *dir; /* owned: run directory; NULL: there is none */
	pid_t pid; /* 0: not running */
};

/* Starts it and waits until it is ready. 0; or an exit code, and nothing is left behind. */
int private_start(struct private_daemon *p);

/* 0 while it runs; else a failure, told. */
int private_check(const struct private_daemon *p);

/* Ends the daemon and removes its directory. Fine on one that is zero. */
void private_stop(struct private_daemon *p);

#endif
