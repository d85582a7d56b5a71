/* SPDX-License-Identifier: MIT */
#ifndef VARVE_BASE_LOG_H
#define VARVE_BASE_LOG_H

/* One line to standard error, in front of it the program's name and, under systemd, the level that
 * its journal understands. Only programs log; libraries return. */

void log_init(const char *program);

void log_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_warning(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* A message in one new string, for ret_error outputs. Owned by the caller; NULL without memory. */
char *text_format(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
