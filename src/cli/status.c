/* SPDX-License-Identifier: MIT */
/* varve status: what the daemon records, of whom, and how much memory it takes. */

#include <stdio.h>
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/show.h"

static void print(const json_t *answer)
{
	const char *version = json_string_value(json_object_get(answer, "version"));

	printf("varved %s, pid %d\n\n", version ? version : "",
		(int)json_integer_value(json_object_get(answer, "pid")));
	show_sessions(json_object_get(answer, "sessions"));
	putchar('\n');
	show_processes(json_object_get(answer, "processes"));
}

static int status(const struct cli_verb *v, int argc, char **argv)
{
	bool json = false;
	const struct cli_option options[] = {
		{ "json", 0, false, cli_take_flag, &json },
		{ NULL },
	};
	json_t *answer;
	char **words;
	int n, r;

	r = cli_parse(v, options, false, argc, argv, &words, &n);
	if (r == CLI_GO_ON)
		r = cli_words_check(v, words, n, 0, 1, "");
	if (r != CLI_GO_ON)
		return r;
	r = client_ask_once(NULL,
		json_pack("{s:s, s:s*}", "verb", "status", "session", n ? words[0] : NULL),
		&answer);
	if (r != 0)
		return r;
	if (json) {
		json_object_del(answer, "ok");
		show_json(answer);
	} else {
		print(answer);
	}
	json_decref(answer);
	return 0;
}

const struct cli_verb cli_status = {
	.name = "status",
	.synopsis = "[NAME] [--json]",
	.summary = "sessions and processes, and the memory they take",
	.help = "Shows all sessions and processes, or only session NAME and the processes in it.\n\n"
		"  USED    shared memory of the session, never above the budget; STORE is the part that\n"
		"          keeps what ended processes recorded; BASE, the fixed pages, is not in it\n"
		"  EVENTS  recorded so far, whether still kept or not\n"
		"  LOST    calls that could not be recorded, by reason\n\n"
		"      --json   for programs: sizes in bytes, times in ns\n",
	.run = status,
};
