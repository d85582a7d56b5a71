/* SPDX-License-Identifier: MIT */
#ifndef VARVE_DAEMON_NOTIFY_H
#define VARVE_DAEMON_NOTIFY_H

/* Tells the service manager a state, as sd_notify(3) does, in the few lines that this takes: a
 * datagram to $NOTIFY_SOCKET. Does nothing where there is none. */
void notify_state(const char *state);

#endif
