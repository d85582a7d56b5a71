/* SPDX-License-Identifier: MIT */
#ifndef VARVE_BASE_LOG_H
#define VARVE_BASE_LOG_H

/* One line to standard error, in front of it the program's name or, under systemd, the level that
 * its journal understands. Only programs log; libraries return. */

void log_init(const char *program);

void log_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
