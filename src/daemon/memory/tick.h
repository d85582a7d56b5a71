/* SPDX-License-Identifier: MIT */
#ifndef VARVE_DAEMON_TICK_H
#define VARVE_DAEMON_TICK_H

/*
 * When the daemon looks at its pools.
 *
 *   AWAKE    a tick each 20 ms while pools grow, else each second; a program that finds nothing free
 *            in between can call for one more (DAEMON_DOZING in the control file). After a call the
 *            next ticks come after 1, 2, 4 ... ms while there is memory to give, for a call is most
 *            often the beginning of a burst
 *   DROWSY   nothing moved: any switch wakes us now (DAEMON_ASLEEP), and one more tick looks for one
 *            that came just before
 *   ASLEEP   nothing at all, but for one timer when data will be older than their window
 *
 * A switch in any program, or tick_poke(), leads back to AWAKE.
 */

struct daemon;

int tick_init(struct daemon *d);
/* Closes its handles; the loop must run once more. */
void tick_fini(struct daemon *d);
/* Something changed that needs a look: tick soon. */
void tick_poke(struct daemon *d);

#endif
