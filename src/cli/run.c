/* SPDX-License-Identifier: MIT */
/* varve run: a command as a source for the daemon in force. Sets the environment, nothing else. */

#include <stdlib.h>
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/source.h"

static int run(const struct cli_verb *v, int argc, char **argv)
{
	const char *list = NULL;
	const struct cli_option options[] = {
		{ "preload", 0, true, cli_take_text, &list },
		{ NULL },
	};
	char **words, *preload = NULL, *rundir;
	int n, r;

	r = cli_parse(v, options, true, argc, argv, &words, &n);
	if (r == CLI_GO_ON)
		r = cli_words_check(v, words, n, 1, n, "CMD");
	if (r != CLI_GO_ON)
		return r;
	r = source_preload(list, &preload);
	if (r != 0)
		return r;
	rundir = client_rundir();
	r = rundir ? source_environment(rundir, preload) : cli_fail("out of memory");
	free(rundir);
	free(preload);
	return r != 0 ? r : source_tell(words[0], source_exec(words));
}

const struct cli_verb cli_run = {
	.name = "run",
	.synopsis = "[--preload LIST] [--] CMD [ARG...]",
	.summary = "run a command as a source for the daemon in force",
	.help = "Runs CMD with VARVE_RUNDIR set to the run directory of the daemon in force, whether one\n"
		"is there or not; all that CMD starts inherits it. Ends with CMD's status, 127 if there\n"
		"is no such command, 126 if it cannot be executed.\n\n"
		"  --preload LIST   libraries that make events of an unmodified program's calls,\n"
		"                   separated by commas: libc\n",
	.run = run,
};
