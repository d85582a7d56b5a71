/* SPDX-License-Identifier: MIT */
/* What the verbs that only pass a session's name, or its name and patterns, on to the daemon do. The
 * daemon's verbs have the same names. */

#include <stdlib.h>
#include "cli/cli.h"
#include "cli/client.h"

int cli_session_run(const struct cli_verb *v, int argc, char **argv)
{
	const struct cli_option options[] = { { NULL } };
	char **words;
	int n, r;

	r = cli_parse(v, options, false, argc, argv, &words, &n);
	if (r == CLI_GO_ON)
		r = cli_words_check(v, words, n, 1, 1, "NAME");
	if (r == CLI_GO_ON)
		r = client_ask_once(
			NULL, json_pack("{s:s, s:s}", "verb", v->name, "session", words[0]), NULL);
	return r;
}

int cli_rules_run(const struct cli_verb *v, int argc, char **argv)
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
		r = cli_misuse(v, "%s needs -e PATTERN", v->name);
	if (r == CLI_GO_ON)
		r = client_ask_once(NULL,
			json_pack("{s:s, s:s, s:o*}", "verb", v->name, "session", words[0],
				"patterns", client_texts(patterns.texts, patterns.n)),
			NULL);
	free(patterns.texts);
	return r;
}
