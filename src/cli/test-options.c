/* SPDX-License-Identifier: MIT */
/* Words of a command line: what is taken, what is left, what is refused and with which words. */

#include "cli/cli.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

struct taken {
	const char *output;
	uint64_t budget, window;
	bool json;
	struct cli_patterns patterns;
	char **words;
	int n, code;
	char said[1024]; /* on stderr */
};

static const struct cli_verb verb = { .name = "try", .synopsis = "[X]", .help = "" };

/* Parses the words of text, which blanks separate. */
static struct taken *parse(const char *text, bool stop_at_word)
{
	static char copy[512], *argv[32];
	static struct taken t;
	const struct cli_option options[] = {
		{ "output", 'o', true, cli_take_text, &t.output },
		{ "budget", 'b', true, cli_take_size, &t.budget },
		{ "window", 0, true, cli_take_time, &t.window },
		{ "json", 0, false, cli_take_flag, &t.json },
		{ "event", 'e', true, cli_take_pattern, &t.patterns },
		{ NULL },
	};
	int argc = 0, saved = dup(STDERR_FILENO);
	char *rest, said[] = "/tmp/varve-test-options-XXXXXX";
	int fd = mkstemp(said);

	free(t.patterns.texts);
	t = (struct taken){ 0 };
	snprintf(copy, sizeof(copy), "try %s", text);
	for (char *w = strtok_r(copy, " ", &rest); w; w = strtok_r(NULL, " ", &rest))
		argv[argc++] = w;
	argv[argc] = NULL;
	dup2(fd, STDERR_FILENO);
	t.code = cli_parse(&verb, options, stop_at_word, argc, argv, &t.words, &t.n);
	dup2(saved, STDERR_FILENO);
	close(saved);
	assert_true(pread(fd, t.said, sizeof(t.said) - 1, 0) >= 0);
	close(fd);
	unlink(said);
	return &t;
}

static void options_stand_anywhere(void **state)
{
	struct taken *t = parse("a --budget 8M b -o out --json --window=30s c", false);

	assert_int_equal(t->code, CLI_GO_ON);
	assert_int_equal(t->n, 3);
	assert_string_equal(t->words[0], "a");
	assert_string_equal(t->words[2], "c");
	assert_null(t->words[3]);
	assert_int_equal(t->budget, 8 << 20);
	assert_int_equal(t->window, UINT64_C(30000000000));
	assert_string_equal(t->output, "out");
	assert_true(t->json);
}

static void values_may_be_joined(void **state)
{
	struct taken *t = parse("-oout -b4K --output=-x -e a:* -e!b:*", false);

	assert_int_equal(t->code, CLI_GO_ON);
	assert_string_equal(t->output, "-x");
	assert_int_equal(t->budget, 4096);
	assert_int_equal(t->patterns.n, 2);
	assert_string_equal(t->patterns.texts[1], "!b:*");
}

static void command_keeps_its_own_options(void **state)
{
	struct taken *t = parse("-o out ls -o --help -- x", true);

	assert_int_equal(t->code, CLI_GO_ON);
	assert_int_equal(t->n, 5);
	assert_string_equal(t->words[0], "ls");
	assert_string_equal(t->words[2], "--help");
	assert_string_equal(t->words[3], "--");
	t = parse("-- -o", true);
	assert_int_equal(t->n, 1);
	assert_string_equal(t->words[0], "-o");
	t = parse("a -- -o", false);
	assert_int_equal(t->n, 2);
	assert_string_equal(t->words[1], "-o");
	t = parse("-", false);
	assert_int_equal(t->n, 1);
}

static void wrong_use_names_the_word(void **state)
{
	static const struct {
		const char *words, *says;
	} bad[] = {
		{ "--frob", "--frob" },
		{ "-x", "-x" },
		{ "--out x", "--out" }, /* no abbreviations */
		{ "--outputs x", "--outputs" },
		{ "a --budget", "--budget needs a value" },
		{ "-o", "-o needs a value" },
		{ "--json=yes", "--json=yes takes no value" },
		{ "--budget lots", "'lots': a size is" },
		{ "--budget 0", "above 0" },
		{ "--window 5parsecs", "'5parsecs': a time is" },
		{ "-e net", "'net': a pattern is provider:event" },
		{ "--output=", "it is empty" },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct taken *t = parse(bad[i].words, false);

		assert_int_equal(t->code, CLI_USAGE);
		assert_non_null(strstr(t->said, bad[i].says));
		assert_ptr_equal(strchr(t->said, '\n'), t->said + strlen(t->said) - 1);
	}
}

static void words_are_counted(void **state)
{
	char *words[] = { "one", "two", NULL };

	assert_int_equal(cli_words_check(&verb, words, 2, 1, 2, "NAME"), CLI_GO_ON);
	assert_int_equal(cli_words_check(&verb, words, 0, 1, 2, "NAME"), CLI_USAGE);
	assert_int_equal(cli_words_check(&verb, words, 2, 1, 1, "NAME"), CLI_USAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(options_stand_anywhere),
		cmocka_unit_test(values_may_be_joined),
		cmocka_unit_test(command_keeps_its_own_options),
		cmocka_unit_test(wrong_use_names_the_word),
		cmocka_unit_test(words_are_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
