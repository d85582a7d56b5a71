/* SPDX-License-Identifier: MIT */
#ifndef VARVE_BASE_PATTERN_H
#define VARVE_BASE_PATTERN_H

/*
 * Which events a session wants: an ordered list of rules, the last one that matches wins.
 *
 *	net:*		on: every event of provider net
 *	!net:tx_*	off: those of net that start with tx_
 *
 * '*' stands for any characters, '?' for one; all else must be a letter, a digit or '_', as in
 * the names. What no rule matches is off; a list whose first rule is an off rule starts with
 * an implied "*:*", which is kept in the list, so that the list shown tells the whole truth.
 */

#include <stdbool.h>
#include <stddef.h>

#define PATTERN_TEXT_MAX  256  /* bytes of a rule: '!', two names of 127, ':' */
#define PATTERN_RULES_MAX 1024 /* in a list */

struct pattern {
	bool on;
	char provider[128];
	char event[128];
};

/* An owned array; all zero is the empty list. */
struct pattern_list {
	size_t n;
	struct pattern *rules;
};

/* 0; or -EINVAL and *ret_why (if not NULL), a static text that says what is wrong with it. */
int pattern_parse(const char *text, struct pattern *ret, const char **ret_why);
bool pattern_match(const struct pattern *p, const char *provider, const char *event);

/* Writes the rule as pattern_parse() reads it. Returns buf. */
const char *pattern_format(const struct pattern *p, char buf[PATTERN_TEXT_MAX + 2]);

/*
 * Appends a rule. Earlier rules that it makes pointless (the same globs; all of them under "*:*")
 * go, so a list does not grow by switching to and fro. 0, -ENOMEM, or -E2BIG: too many rules.
 */
int pattern_list_add(struct pattern_list *l, const struct pattern *p);

/* Whether the list switches provider:event on. */
bool pattern_list_match(const struct pattern_list *l, const char *provider, const char *event);

void pattern_list_fini(struct pattern_list *l);

#endif
