/* SPDX-License-Identifier: MIT */
#ifndef VARVE_DAEMON_REPORT_H
#define VARVE_DAEMON_REPORT_H

/*
 * report.json and processes.json of a snapshot: what was kept, since when it is complete, and what
 * is missing, by reason. Times are ns of the Unix epoch; unknown and unlimited are null. Written
 * process by process: no more than one is ever in memory. Errors stay in the stream.
 */

#include <stdint.h>
#include <stdio.h>

struct snapshot;

void report_write(FILE *f, const struct snapshot *sn);
void report_write_processes(FILE *f, const struct snapshot *sn);

/* {"taken_at", "session", "processes", "events", "bytes"} for END; new, owned by the caller; NULL
 * without memory. */
char *report_summary(const struct snapshot *sn, uint64_t n_bytes);

#endif
