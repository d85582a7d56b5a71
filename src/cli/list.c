/* SPDX-License-Identifier: MIT */
/* varve list: events, processes or sessions. */

#include <string.h>
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/show.h"

static const struct {
	const char *name;
	void (*show)(const json_t *list);
} lists[] = { { "events", show_events }, { "processes", show_processes },
	{ "sessions", show_sessions } };

#define N_LISTS (sizeof(lists) / sizeof(lists[0]))

static int list(const struct cli_verb *v, int argc, char **argv)
{
	bool json = false;
	const struct cli_option options[] = {
		{ "json", 0, false, cli_take_flag, &json },
		{ NULL },
	};
	json_t *answer;
	char **words;
	size_t what = 0;
	int n, r;

	r = cli_parse(v, options, false, argc, argv, &words, &n);
	if (r == CLI_GO_ON)
		r = cli_words_check(v, words, n, 1, 1, "events, processes or sessions");
	if (r != CLI_GO_ON)
		return r;
	while (what < N_LISTS && strcmp(lists[what].name, words[0]) != 0)
		what++;
	if (what == N_LISTS)
		return cli_misuse(v,
			"there is no list of '%s', only events, processes and sessions", words[0]);
	r = client_ask_once(
		NULL, json_pack("{s:s, s:s}", "verb", "list", "what", words[0]), &answer);
	if (r != 0)
		return r;
	(json ? show_json : lists[what].show)(json_object_get(answer, "list"));
	json_decref(answer);
	return 0;
}

const struct cli_verb cli_list = {
	.name = "list",
	.synopsis = "events|processes|sessions [--json]",
	.summary = "events that programs have, processes, sessions",
	.help = "  events      every event of every program so far: id, level, name, fields\n"
		"  processes   as in 'varve status'\n"
		"  sessions    as in 'varve status'\n\n"
		"      --json  for programs\n",
	.run = list,
};
