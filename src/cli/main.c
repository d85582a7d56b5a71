/* SPDX-License-Identifier: MIT */
/*
 * varve: the command line. This file finds the verb; a file per verb does the rest.
 */

#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

static const struct cli_verb *const verbs[] = { &cli_record, &cli_run, &cli_start, &cli_stop,
	&cli_destroy, &cli_enable, &cli_disable, &cli_status, &cli_list, &cli_snapshot, &cli_view };

#define N_VERBS (sizeof(verbs) / sizeof(verbs[0]))

/* --- the verb ----------------------------------------------------------------------------------- */

static int help(void)
{
	printf("varve: the flight recorder for every process of a device\n\n"
	       "usage: varve VERB [OPTION...]\n\n");
	for (size_t i = 0; i < N_VERBS; i++)
		printf("  %-10s %s\n", verbs[i]->name, verbs[i]->summary);
	printf("\n'varve VERB --help' tells more. Sizes are written as 64M, times as 30s, patterns as\n"
	       "'provider:event' with * and ?; VARVE_RUNDIR names the run directory of the daemon.\n\n"
	       "A first trace:\n\n"
	       "  varve record --preload libc -o trace ls -l\n"
	       "  varve view trace\n");
	return 0;
}

static const struct cli_verb *find_verb(const char *name)
{
	for (size_t i = 0; i < N_VERBS; i++)
		if (strcmp(verbs[i]->name, name) == 0)
			return verbs[i];
	return NULL;
}

int main(int argc, char **argv)
{
	const struct cli_verb *v;
	int r;

	if (argc < 2)
		return cli_misuse(NULL, "a verb is missing");
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
		return help();
	if (strcmp(argv[1], "--version") == 0) {
		puts("varve " VARVE_VERSION);
		return 0;
	}
	v = find_verb(argv[1]);
	if (!v)
		return cli_misuse(NULL,
			argv[1][0] == '-' ? "there is no option %s" : "there is no verb '%s'",
			argv[1]);
	r = v->run(v, argc - 1, argv + 1);
	if (fflush(stdout) != 0 || ferror(stdout))
		return cli_fail("cannot write the output");
	return r;
}
