/* SPDX-License-Identifier: MIT */
#ifndef VARVE_CLI_CLI_H
#define VARVE_CLI_CLI_H

/*
 * What the verbs of the command line share. A verb is one file, one struct cli_verb and one row in
 * main.c. It reads its words with cli_parse(), asks the daemon through client.h, prints, and
 * returns the exit code: 0, CLI_FAILED, CLI_USAGE. Whoever finds a fault prints the one line about
 * it (cli_fail(), cli_misuse()); callers only pass the code on.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CLI_FAILED	   1
#define CLI_USAGE	   2
#define CLI_NOT_EXECUTABLE 126
#define CLI_NOT_FOUND	   127

struct cli_verb {
	const char *name;
	const char *synopsis; /* behind the name */
	const char *summary;  /* one line for 'varve --help' */
	const char *help;     /* what 'varve VERB --help' prints below the synopsis */
	int (*run)(const struct cli_verb *v, int argc, char **argv);
};

extern const struct cli_verb cli_run, cli_record, cli_start, cli_stop, cli_destroy, cli_status,
	cli_list, cli_enable, cli_disable, cli_snapshot, cli_view;

/* --- words -------------------------------------------------------------------------------------- */

/* One option. take gets the value (NULL for a flag) and `to`; NULL, or what is wrong with it. */
struct cli_option {
	const char *name; /* without "--"; NULL ends the list */
	char letter;	  /* 0: none */
	bool has_value;
	const char *(*take)(const char *value, void *to);
	void *to;
};

/* Everybody's takers. `to` is a ... */
const char *cli_take_flag(const char *value, void *to);	   /* bool */
const char *cli_take_text(const char *value, void *to);	   /* const char * (borrowed of argv) */
const char *cli_take_size(const char *value, void *to);	   /* uint64_t, bytes */
const char *cli_take_time(const char *value, void *to);	   /* uint64_t, ns */
const char *cli_take_mode(const char *value, void *to);	   /* const char * */
const char *cli_take_pattern(const char *value, void *to); /* struct cli_patterns */

struct cli_patterns {
	size_t n;
	const char **texts; /* owned array, borrowed texts */
};

#define CLI_GO_ON (-1)

/*
 * Takes the options out of argv (argv[0] is the verb); *ret_words, *ret_n are what remains, in
 * order. With stop_at_word the first word ends the options, and all behind it is a command's.
 * CLI_GO_ON, or the exit code: help was asked for, or the use is wrong and has been told.
 */
int cli_parse(const struct cli_verb *v, const struct cli_option *options, bool stop_at_word,
	int argc, char **argv, char ***ret_words, int *ret_n);

/* Checks how many words there are. needs: names of those that must be there, for the message. */
int cli_words_check(
	const struct cli_verb *v, char **words, int n, int min, int max, const char *needs);

/* --- verbs that are the daemon's (session.c) ------------------------------------------------------- */

/* run of a verb that has a session's NAME and no more. */
int cli_session_run(const struct cli_verb *v, int argc, char **argv);
/* run of a verb that has a session's NAME and patterns. */
int cli_rules_run(const struct cli_verb *v, int argc, char **argv);

/* --- one line each on stderr: returns the code ----------------------------------------------------- */

int cli_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
int cli_misuse(const struct cli_verb *v, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* --- interruption: SIGINT, SIGTERM and SIGHUP set a flag, so that things can be put away ------------ */

void cli_catch_signals(void);
bool cli_interrupted(void);
/* Ends as the signal would have ended the program; returns CLI_FAILED if there was none. */
int cli_die_of_signal(void);

#endif
