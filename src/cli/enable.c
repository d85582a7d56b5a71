/* SPDX-License-Identifier: MIT */
/* varve enable: record these events too. */

#include <stdlib.h>
#include "cli/cli.h"
#include "cli/client.h"

static int enable(const struct cli_verb *v, int argc, char **argv)
{
	struct cli_patterns patterns = { 0 };
	const struct cli_option options[] = {
		{ "event", 'e', true, cli_take_pattern, &patterns },
		{ NULL },
	};
	char **words;
	int n, r;

	r = cli_parse(v, options, false, argc, argv, &words, &n);
	if (r == CLI_GO_ON)
		r = cli_words_check(v, words, n, 1, 1, "NAME");
	if (r == CLI_GO_ON && patterns.n == 0)
		r = cli_misuse(v, "enable needs -e PATTERN");
	if (r == CLI_GO_ON)
		r = client_ask_once(
			json_pack("{s:s, s:s, s:o*}", "verb", "enable", "session", words[0],
				"patterns", client_texts(patterns.texts, patterns.n)),
			NULL);
	free(patterns.texts);
	return r;
}

const struct cli_verb cli_enable = {
	.name = "enable",
	.synopsis = "NAME -e PATTERN...",
	.summary = "record these events too",
	.help = "Adds the patterns to the end of the rules of session NAME: the last match wins. A pattern is\n"
		"'provider:event' with * and ?. Takes effect at once, in all programs.\n\n"
		"  -e, --event PATTERN  repeats, one pattern each\n",
	.run = enable,
};
