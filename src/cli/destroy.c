/* SPDX-License-Identifier: MIT */
/* varve destroy: end a session and free its memory. */

#include <stddef.h>
#include "cli/cli.h"
#include "cli/client.h"

static int destroy(const struct cli_verb *v, int argc, char **argv)
{
	const struct cli_option options[] = { { NULL } };
	char **words;
	int n, r;

	r = cli_parse(v, options, false, argc, argv, &words, &n);
	if (r == CLI_GO_ON)
		r = cli_words_check(v, words, n, 1, 1, "NAME");
	if (r == CLI_GO_ON)
		r = client_ask_once(
			json_pack("{s:s, s:s}", "verb", "destroy", "session", words[0]), NULL);
	return r;
}

const struct cli_verb cli_destroy = {
	.name = "destroy",
	.synopsis = "NAME",
	.summary = "end a session and free its memory",
	.help = "Ends a session and gives all of its memory back; what it recorded is gone.\n",
	.run = destroy,
};
