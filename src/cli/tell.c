/* SPDX-License-Identifier: MIT */
/* What goes to stderr, one line each, and signals that ask to end: see cli.h. */

#include "cli/cli.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

/* --- one line ----------------------------------------------------------------------------------- */

/* Names in it may come from anywhere: nothing of it may steer the terminal or break the line. */
static void print_line(const char *fmt, va_list ap, const char *tail, const char *verb)
{
	char text[2048];

	vsnprintf(text, sizeof(text), fmt, ap);
	for (char *p = text; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = '?';
	if (isatty(STDERR_FILENO))
		fputs("\r\033[K", stderr); /* over a line of progress */
	fprintf(stderr, "varve: %s", text);
	fprintf(stderr, tail, verb);
}

int cli_fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	print_line(fmt, ap, "\n", NULL);
	va_end(ap);
	return CLI_FAILED;
}

int cli_misuse(const struct cli_verb *v, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	print_line(fmt, ap, v ? " (see 'varve %s --help')\n" : " (see 'varve --help')\n",
		v ? v->name : NULL);
	va_end(ap);
	return CLI_USAGE;
}

/* --- signals ------------------------------------------------------------------------------------ */

static volatile sig_atomic_t caught;

static void on_signal(int sig)
{
	caught = sig;
}

void cli_catch_signals(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction sa = { .sa_handler = on_signal },
			 before; /* no SA_RESTART: waits shall end */

	/* What nohup set to be ignored stays so. */
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
			sigaction(signals[i], &sa, NULL);
}

bool cli_interrupted(void)
{
	return caught;
}

int cli_die_of_signal(void)
{
	if (caught) {
		signal(caught, SIG_DFL);
		raise(caught);
	}
	return CLI_FAILED;
}
