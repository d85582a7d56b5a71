/* SPDX-License-Identifier: MIT */
#ifndef VARVE_LIB_WAIT_H
#define VARVE_LIB_WAIT_H

/*
 * VARVE_WAIT=1: where there is no control file yet, a thread waits for one. It ends when it is
 * there, or after an hour; it blocks all signals. Without VARVE_WAIT this does nothing.
 */
void wait_for_daemon(void);

#endif
