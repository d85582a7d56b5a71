/* SPDX-License-Identifier: MIT */
/*
 * Words of a command line: options as in getopt_long (--name VALUE, --name=VALUE, -n VALUE, -nVALUE,
 * -- ends them), but exact: no abbreviations, and every complaint names the word it is about.
 */

#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/pattern.h"
#include "base/units.h"

const char *cli_take_flag(const char *value, void *to)
{
	*(bool *)to = true;
	return NULL;
}

const char *cli_take_text(const char *value, void *to)
{
	*(const char **)to = value;
	return *value ? NULL : "it is empty";
}

const char *cli_take_size(const char *value, void *to)
{
	int r = units_size_parse(value, to);

	if (r == 0 && *(uint64_t *)to == 0)
		return "it must be above 0";
	return r == -ERANGE ? "it is too large" : r < 0 ? UNITS_SIZE_HINT : NULL;
}

const char *cli_take_time(const char *value, void *to)
{
	int r = units_time_parse(value, to);

	if (r == 0 && *(uint64_t *)to == 0)
		return "it must be above 0";
	return r == -ERANGE ? "it is too long" : r < 0 ? UNITS_TIME_HINT : NULL;
}

const char *cli_take_mode(const char *value, void *to)
{
	if (strcmp(value, "flight") != 0)
		return "this version has the mode 'flight' only";
	return cli_take_text(value, to);
}

const char *cli_take_pattern(const char *value, void *to)
{
	struct cli_patterns *list = to;
	const char **texts, *why;
	struct pattern p;

	if (pattern_parse(value, &p, &why) < 0)
		return why;
	texts = realloc(list->texts, (list->n + 1) * sizeof(*texts));
	if (!texts)
		return "out of memory";
	list->texts = texts;
	texts[list->n++] = value;
	return NULL;
}

static void print_help(const struct cli_verb *v)
{
	printf("varve %s %s\n\n%s", v->name, v->synopsis, v->help);
}

/* Finds the option that the word starts; *ret_value is what the word itself has of a value. */
static const struct cli_option *find(
	const struct cli_option *o, const char *word, const char **ret_value)
{
	size_t len = strcspn(word, "=");

	for (; o->name; o++) {
		if (word[1] == '-' && strlen(o->name) == len - 2 &&
			strncmp(o->name, word + 2, len - 2) == 0) {
			*ret_value = word[len] ? word + len + 1 : NULL;
			return o;
		}
		if (word[1] != '-' && o->letter && word[1] == o->letter) {
			*ret_value = word[2] ? word + 2 : NULL;
			return o;
		}
	}
	return NULL;
}

/* The option at argv[*i]; moves *i to the last word used. */
static int parse_option(
	const struct cli_verb *v, const struct cli_option *options, int argc, char **argv, int *i)
{
	const struct cli_option *o;
	const char *word = argv[*i], *value, *why;

	if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
		print_help(v);
		return 0;
	}
	o = find(options, word, &value);
	if (!o)
		return cli_misuse(v, "%s knows no option %s", v->name, word);
	if (!o->has_value && value)
		return cli_misuse(v, "%s takes no value", word);
	if (o->has_value && !value) {
		if (*i + 1 == argc)
			return cli_misuse(v, "%s needs a value", word);
		value = argv[++*i];
	}
	why = o->take(value, o->to);
	if (why)
		return cli_misuse(v, "--%s '%s': %s", o->name, value, why);
	return CLI_GO_ON;
}

int cli_parse(const struct cli_verb *v, const struct cli_option *options, bool stop_at_word,
	int argc, char **argv, char ***ret_words, int *ret_n)
{
	int n = 0, i, r;

	for (i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--") == 0) {
			i++;
			break;
		}
		if (argv[i][0] == '-' && argv[i][1]) {
			r = parse_option(v, options, argc, argv, &i);
			if (r != CLI_GO_ON)
				return r;
		} else if (stop_at_word) {
			break;
		} else {
			argv[n++] = argv[i];
		}
	}
	/* Words move to the front of argv; the options that were there have been used. */
	for (; i < argc; i++)
		argv[n++] = argv[i];
	argv[n] = NULL;
	*ret_words = argv;
	*ret_n = n;
	return CLI_GO_ON;
}

int cli_words_check(
	const struct cli_verb *v, char **words, int n, int min, int max, const char *needs)
{
	if (n < min)
		return cli_misuse(v, "%s needs %s", v->name, needs);
	if (n > max)
		return cli_misuse(v, "what is '%s' for", words[max]);
	return CLI_GO_ON;
}
