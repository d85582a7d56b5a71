/* SPDX-License-Identifier: MIT */
#ifndef VARVE_CLI_OUTPUT_H
#define VARVE_CLI_OUTPUT_H

/*
 * The directory that a snapshot goes to. It appears under its name whole or not at all:
 *
 *   output_open()      checks PATH, makes PARENT/.varve-XXXXXX beside it
 *   output_receive()   fills that with the files that come as frames (wire/frames.h)
 *   output_commit()    renames it to its name
 *   output_close()     removes it, unless it was committed
 *
 * PATH must not be there, or be an empty directory; PATH/ is a directory that is there, and gets
 * PATH/SESSION-TIME. Errors have been told in one line when a function returns an exit code.
 */

#include <jansson.h>
#include <stdint.h>
#include "cli/client.h"

struct output {
	const char *path; /* as given, borrowed */
	int parent_fd;	  /* owned */
	char *parent;	  /* owned: as in messages */
	char *name;	  /* owned: in parent; NULL until output_commit() knows it */
	char temp[24];	  /* name of the temporary directory; empty: there is none */
	int dir_fd;	  /* owned: of the temporary directory */
	char *shown;	  /* owned: the final path, after output_commit() */
};

/* Looks only: whether output_open() would do, as far as can be told without making anything. */
int output_check(const char *path);

int output_open(struct output *o, const char *path);

/* Takes the frames that follow the answer on c. 0 and *ret_totals: END's object, owned by the caller. */
int output_receive(struct output *o, struct client *c, json_t **ret_totals);

int output_commit(struct output *o, const char *session, uint64_t taken_at_ns);

/* Fine on one that is zero or was closed before. */
void output_close(struct output *o);

/* "20260131-235959", local time, of ns of the Unix epoch. */
#define OUTPUT_TIME_MAX 32
const char *output_time(char buf[OUTPUT_TIME_MAX], uint64_t unix_ns);

#endif
