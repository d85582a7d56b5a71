/* SPDX-License-Identifier: MIT */
/* Lines to standard error: see log.h. One write per line, so that lines of several programs on one
 * terminal do not mix. */

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"

static const char *log_program = "varve";
static bool log_levels; /* the journal reads: "<3>" in front */

void log_init(const char *program)
{
	log_program = program;
	log_levels = getenv("JOURNAL_STREAM") != NULL && !isatty(STDERR_FILENO);
}

__attribute__((format(printf, 2, 0))) static void log_line(int level, const char *fmt, va_list ap)
{
	char line[1024];
	int n, m;

	n = log_levels ? snprintf(line, sizeof(line), "<%d>", level)
		       : snprintf(line, sizeof(line), "%s: ", log_program);
	m = vsnprintf(line + n, sizeof(line) - (size_t)n - 1, fmt, ap);
	if (m < 0)
		return;
	n += m;
	if (n > (int)sizeof(line) - 2)
		n = sizeof(line) - 2;
	line[n++] = '\n';
	if (write(STDERR_FILENO, line, (size_t)n) < 0)
		return; /* nobody left to tell */
}

#define LOG_FUNCTION(name, level)                                                                  \
	void name(const char *fmt, ...)                                                            \
	{                                                                                          \
		va_list ap;                                                                        \
                                                                                                   \
		va_start(ap, fmt);                                                                 \
		log_line(level, fmt, ap);                                                          \
		va_end(ap);                                                                        \
	}

LOG_FUNCTION(log_error, 3)
LOG_FUNCTION(log_warning, 4)
LOG_FUNCTION(log_info, 6)

char *text_format(const char *fmt, ...)
{
	char *text;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	return n < 0 ? NULL : text;
}
