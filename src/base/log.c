/* SPDX-License-Identifier: MIT */
/* Lines to standard error: see log.h. One write per line, so that lines of several programs on one
 * terminal do not mix. */

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"

#define LEVEL_ERROR 3 /* as in syslog(3) */

static const char *log_program = "varve";
static bool log_levels; /* the journal reads: "<3>" in front */

void log_init(const char *program)
{
	log_program = program;
	log_levels = getenv("JOURNAL_STREAM") != NULL && !isatty(STDERR_FILENO);
}

void log_error(const char *fmt, ...)
{
	char line[1024];
	va_list ap;
	int n, m;

	n = log_levels ? snprintf(line, sizeof(line), "<%d>", LEVEL_ERROR)
		       : snprintf(line, sizeof(line), "%s: ", log_program);
	va_start(ap, fmt);
	m = vsnprintf(line + n, sizeof(line) - (size_t)n - 1, fmt, ap);
	va_end(ap);
	if (m < 0)
		return;
	n += m;
	if (n > (int)sizeof(line) - 2)
		n = sizeof(line) - 2;
	line[n++] = '\n';
	if (write(STDERR_FILENO, line, (size_t)n) < 0)
		return; /* nobody left to tell */
}
