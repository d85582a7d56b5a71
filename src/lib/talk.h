/* SPDX-License-Identifier: MIT */
#ifndef VARVE_LIB_TALK_H
#define VARVE_LIB_TALK_H

/*
 * The one conversation with the daemon: connect, HELLO and the events, WELCOME with the pool's fd,
 * the ids. Everything within a deadline; the socket is closed at the end.
 */

#include <stdint.h>
#include "wire/client.h"

struct talk {
	int fd;	     /* owned; -1: not connected */
	int pool_fd; /* owned; -1: none came */
	int64_t deadline;
	uint8_t *buf; /* owned: one message, mapped */
	struct wire_welcome welcome;
};

/* Connects to the daemon. 0 or -errno; talk_fini() in either case. */
int talk_init(struct talk *t, int64_t deadline);
/* Says hello, and which events there are that this epoch does not know. hello.n_events must be
 * objects_count(epoch). 0 or -errno. */
int talk_ask(struct talk *t, const struct wire_hello *hello, uint64_t epoch);
/* Receives WELCOME. 0 or -errno. */
int talk_welcome(struct talk *t);
/* Receives the ids and gives them to the events. 0 or -errno. */
int talk_assign(struct talk *t, uint64_t epoch);
void talk_fini(struct talk *t);

#endif
