/* SPDX-License-Identifier: MIT */
/* varve start: a new session. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/units.h"
#include "cli/cli.h"
#include "cli/client.h"

static const char *take_hugepages(const char *value, void *to)
{
	if (strcmp(value, "off") != 0)
		return "this version has 'off' only";
	return cli_take_text(value, to);
}

static int start(const struct cli_verb *v, int argc, char **argv)
{
	const char *mode = NULL, *hugepages = NULL;
	uint64_t budget = 0, window = 0;
	struct cli_patterns patterns = { 0 };
	const struct cli_option options[] = {
		{ "budget", 'b', true, cli_take_size, &budget },
		{ "window", 'w', true, cli_take_time, &window },
		{ "mode", 0, true, cli_take_mode, &mode },
		{ "hugepages", 0, true, take_hugepages, &hugepages },
		{ "event", 'e', true, cli_take_pattern, &patterns },
		{ NULL },
	};
	char **words;
	int n, r;

	r = cli_parse(v, options, false, argc, argv, &words, &n);
	if (r == CLI_GO_ON)
		r = cli_words_check(v, words, n, 1, 1, "NAME");
	if (r == CLI_GO_ON)
		r = client_ask_once(NULL,
			client_start_request(words[0], budget, window, mode, &patterns), NULL);
	free(patterns.texts);
	return r;
}

const struct cli_verb cli_start = {
	.name = "start",
	.synopsis = "NAME [--budget SIZE] [--window TIME] [-e PATTERN]...",
	.summary = "start a session: record from now on",
	.help = "Starts a session: every program of the device records into its own shared memory, and the\n"
		"newest part of it stays, until 'varve stop'. 'varve snapshot NAME -o DIR' gets it out.\n\n"
		"  -b, --budget SIZE    shared memory for all programs together, never more (32M)\n"
		"  -w, --window TIME    how far back the recording is to reach (60s)\n"
		"  -e, --event PATTERN  events to record, 'provider:event' with * and ?; repeats, the last\n"
		"                       match wins, '!provider:event' leaves out ('*:*')\n"
		"      --mode flight    keep the newest in memory (the only mode of this version)\n"
		"      --hugepages off  no huge pages (the only choice of this version)\n",
	.run = start,
};
