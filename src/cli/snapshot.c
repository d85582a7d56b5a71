/* SPDX-License-Identifier: MIT */
/* varve snapshot: gets the recording of a session out; recording goes on. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "base/units.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/output.h"

static const char *take_output(const char *value, void *to)
{
	size_t len = strlen(value);

	if (strcmp(value, "-") == 0 || (len > 8 && strcmp(value + len - 8, ".tar.zst") == 0))
		return "this version writes directories only";
	return cli_take_text(value, to);
}

static void tell(const struct output *o, const json_t *totals)
{
	const json_t *events = json_object_get(totals, "events");
	char count[UNITS_COUNT_MAX];

	if (json_is_integer(events))
		printf("%s: %s events\n", o->shown,
			units_count_format(count, (uint64_t)json_integer_value(events)));
	else
		printf("%s\n", o->shown);
}

static int take(struct output *o, json_t *request)
{
	json_t *answer = NULL, *totals = NULL;
	struct client c;
	int r = client_open(&c, NULL);

	if (r != 0) {
		json_decref(request);
		return r;
	}
	r = client_ask(&c, request, &answer);
	if (r == 0)
		r = output_receive(o, &c, &totals);
	if (r == 0)
		r = output_commit(o, json_string_value(json_object_get(answer, "session")),
			(uint64_t)json_integer_value(json_object_get(answer, "taken_at")));
	if (r == 0)
		tell(o, totals);
	json_decref(answer);
	json_decref(totals);
	client_close(&c);
	return r;
}

static int snapshot(const struct cli_verb *v, int argc, char **argv)
{
	const char *path = NULL;
	uint64_t last_ns = 0;
	const struct cli_option options[] = {
		{ "output", 'o', true, take_output, &path },
		{ "last", 0, true, cli_take_time, &last_ns },
		{ NULL },
	};
	struct output o;
	char **words;
	int n, r;

	r = cli_parse(v, options, false, argc, argv, &words, &n);
	if (r == CLI_GO_ON)
		r = cli_words_check(v, words, n, 0, 1, "");
	if (r == CLI_GO_ON && !path)
		r = cli_misuse(v, "snapshot needs -o DIR");
	if (r != CLI_GO_ON)
		return r;
	cli_catch_signals();
	r = output_open(&o, path);
	if (r != 0)
		return r;
	r = take(&o,
		json_pack("{s:s, s:s*, s:o*}", "verb", "snapshot", "session", n ? words[0] : NULL,
			"last_ns", last_ns ? json_integer((json_int_t)last_ns) : NULL));
	output_close(&o);
	return cli_interrupted() ? cli_die_of_signal() : r;
}

const struct cli_verb cli_snapshot = {
	.name = "snapshot",
	.synopsis = "[NAME] -o DIR [--last TIME]",
	.summary = "write what a session has recorded into a directory",
	.help = "Writes what session NAME (or the only one) holds at this moment, of all processes, living\n"
		"and ended, as a CTF trace with reports; recording goes on. DIR appears when it is whole.\n"
		"'varve view DIR' shows it.\n\n"
		"  -o, --output DIR   must not be there, or be empty; 'DIR/' makes DIR/NAME-TIME\n"
		"      --last TIME    only the newest part (the session's window)\n",
	.run = snapshot,
};
