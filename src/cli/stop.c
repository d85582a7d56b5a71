/* SPDX-License-Identifier: MIT */
/* varve stop: end recording, keep the data. */

#include <stddef.h>
#include "cli/cli.h"
#include "cli/client.h"

static int stop(const struct cli_verb *v, int argc, char **argv)
{
	const struct cli_option options[] = { { NULL } };
	char **words;
	int n, r;

	r = cli_parse(v, options, false, argc, argv, &words, &n);
	if (r == CLI_GO_ON)
		r = cli_words_check(v, words, n, 1, 1, "NAME");
	if (r == CLI_GO_ON)
		r = client_ask_once(
			json_pack("{s:s, s:s}", "verb", "stop", "session", words[0]), NULL);
	return r;
}

const struct cli_verb cli_stop = {
	.name = "stop",
	.synopsis = "NAME",
	.summary = "end recording, keep the data",
	.help = "Ends recording. The data stay until 'varve destroy', so a snapshot still works.\n",
	.run = stop,
};
