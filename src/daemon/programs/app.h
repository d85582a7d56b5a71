/* SPDX-License-Identifier: MIT */
#ifndef VARVE_DAEMON_APP_H
#define VARVE_DAEMON_APP_H

/*
 * The programs' socket: hello, event descriptions, pool and ids (wire/wire.h), once per process.
 *
 *   HELLO --descriptions to come--> EVENTS --last--> REPLY --all sent--> DONE --peer closes--> gone
 *     |------------- none ---------------------------^
 *
 * What a peer says decides nothing about who it is: pid and uid are the kernel's. A connection has
 * APP_DEADLINE_MS in all; what it sends is charged to its uid until it is done.
 */

#define APP_DEADLINE_MS 2000u

struct daemon;

int app_init(struct daemon *d);
void app_fini(struct daemon *d); /* the loop must run once more */

#endif
