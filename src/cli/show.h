/* SPDX-License-Identifier: MIT */
#ifndef VARVE_CLI_SHOW_H
#define VARVE_CLI_SHOW_H

/* The daemon's lists (arrays, borrowed) as tables for people, on stdout. What a daemon leaves out or
 * gives another type is shown as 0 or nothing. */

#include <jansson.h>

void show_sessions(const json_t *list);
void show_processes(const json_t *list);
void show_events(const json_t *list);

/* As it is, for programs. */
void show_json(const json_t *value);

#endif
