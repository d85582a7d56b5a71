/* SPDX-License-Identifier: MIT */
#ifndef VARVE_DAEMON_SNAPSHOT_SINK_H
#define VARVE_DAEMON_SNAPSHOT_SINK_H

/*
 * Frames (wire/frames.h) onto a socket, from a worker thread: waits for a slow receiver, but not
 * for ever, and not once it is cancelled. The first error stays; all calls after it do nothing.
 */

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "wire/frames.h"

struct sink {
	int fd;			   /* borrowed, non-blocking */
	const atomic_bool *cancel; /* borrowed */
	uint32_t stall_ms;
	int error; /* 0 or -errno: -ECANCELED, -ETIMEDOUT, -EPIPE, ... */
	uint32_t n_files;
	uint64_t n_bytes; /* of DATA */
};

/* Sends one frame; a DATA may be larger than FRAME_DATA_MAX and becomes several. 0 or the error. */
int sink_frame(struct sink *s, enum frame_type type, uint32_t file, uint64_t offset,
	const void *body, size_t len);

/* Announces the next file; its number, or the error. */
int sink_file(struct sink *s, const char *name, uint64_t size);

/* Announces a file of unknown size and opens it for writing front to back. fclose() it; errors are
 * in s->error too. NULL: the error. */
FILE *sink_open(struct sink *s, const char *name);

#endif
