/* SPDX-License-Identifier: MIT */
#ifndef VARVE_DAEMON_RETIRE_H
#define VARVE_DAEMON_RETIRE_H

/*
 * Ends the current sub-buffers of silent streams, so that their memory can be taken back. That runs
 * the writers' own switch, on the stream's CPU, and may wait behind busy threads: never on the loop
 * thread. One batch at a time goes to a worker, which pins itself to each CPU in turn.
 */

#include <stdbool.h>
#include <stdint.h>

struct daemon;
struct process;

int retire_init(struct daemon *d);
/* No batch may be under way. */
void retire_fini(struct daemon *d);

/* Puts a stream, last seen at pos, into the next batch. False if that is full or under way. */
bool retire_add(struct daemon *d, struct process *p, uint32_t ch, uint32_t stream, uint64_t pos);
/* Sends the batch off, if there is one. */
void retire_start(struct daemon *d);
bool retire_busy(const struct daemon *d);

#endif
