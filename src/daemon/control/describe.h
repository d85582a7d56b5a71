/* SPDX-License-Identifier: MIT */
#ifndef VARVE_DAEMON_DESCRIBE_H
#define VARVE_DAEMON_DESCRIBE_H

/*
 * What the daemon is doing, as JSON for status and list. Each returns a new reference, or NULL
 * without memory. Loop thread only.
 */

#include <jansson.h>
#include "daemon/daemon.h"

struct session;

json_t *describe_session(const struct session *s);
json_t *describe_patterns(const struct session *s);
/* Arrays: only of one session, or (NULL) of all. */
json_t *describe_sessions(const struct daemon *d, const struct session *only);
json_t *describe_processes(const struct daemon *d, const struct session *only);
json_t *describe_events(const struct daemon *d);
/* {"nobuf": n, ...}: every enum lost_reason by name. */
json_t *describe_lost(const uint64_t lost[]);

#endif
