/* SPDX-License-Identifier: MIT */
/*
 * Rules over event names: see pattern.h. The matcher is the usual one with a single point to come
 * back to, linear in practice and without recursion, so no rule can make it slow.
 */

#include "base/pattern.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool glob_match(const char *glob, const char *s)
{
	const char *star = NULL, *retry = NULL;

	while (*s) {
		if (*glob == '*') {
			star = glob++;
			retry = s;
		} else if (*glob == '?' || *glob == *s) {
			glob++;
			s++;
		} else if (star) {
			glob = star + 1;
			s = ++retry;
		} else {
			return false;
		}
	}
	while (*glob == '*')
		glob++;
	return *glob == '\0';
}

static bool glob_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || c == '*' || c == '?';
}

/* Copies the glob of len bytes. NULL, or what is wrong with it. */
static const char *glob_take(char to[128], const char *from, size_t len)
{
	if (len == 0)
		return "provider or event is empty ('*' stands for all)";
	if (len > 127)
		return "a name has at most 127 characters";
	for (size_t i = 0; i < len; i++)
		if (!glob_char(from[i]))
			return "names have letters, digits and '_' only; '*' and '?' are wild";
	memcpy(to, from, len);
	to[len] = '\0';
	return NULL;
}

int pattern_parse(const char *text, struct pattern *ret, const char **ret_why)
{
	struct pattern p = { .on = true };
	const char *why, *colon;

	if (*text == '!') {
		p.on = false;
		text++;
	}
	colon = strchr(text, ':');
	why = colon ? glob_take(p.provider, text, (size_t)(colon - text))
		    : "a pattern is provider:event, as in 'net:*'";
	if (!why)
		why = glob_take(p.event, colon + 1, strlen(colon + 1));
	if (why) {
		if (ret_why)
			*ret_why = why;
		return -EINVAL;
	}
	*ret = p;
	return 0;
}

bool pattern_match(const struct pattern *p, const char *provider, const char *event)
{
	return glob_match(p->provider, provider) && glob_match(p->event, event);
}

const char *pattern_format(const struct pattern *p, char buf[PATTERN_TEXT_MAX + 2])
{
	snprintf(buf, PATTERN_TEXT_MAX + 2, "%s%s:%s", p->on ? "" : "!", p->provider, p->event);
	return buf;
}

static bool is_all(const struct pattern *p)
{
	return strcmp(p->provider, "*") == 0 && strcmp(p->event, "*") == 0;
}

static bool same_globs(const struct pattern *a, const struct pattern *b)
{
	return strcmp(a->provider, b->provider) == 0 && strcmp(a->event, b->event) == 0;
}

int pattern_list_add(struct pattern_list *l, const struct pattern *p)
{
	static const struct pattern all = { .on = true, .provider = "*", .event = "*" };
	struct pattern *rules;
	size_t n = 0;

	/* Allocated first: on failure the list is as it was. */
	rules = realloc(l->rules, (l->n + 2) * sizeof(*rules));
	if (!rules)
		return -ENOMEM;
	l->rules = rules;
	if (!is_all(p) && l->n >= PATTERN_RULES_MAX)
		return -E2BIG;

	if (l->n == 0 && !p->on)
		rules[l->n++] = all;
	for (size_t i = 0; i < l->n; i++)
		if (!is_all(p) && !same_globs(&rules[i], p))
			rules[n++] = rules[i];
	rules[n++] = *p;
	l->n = n;
	return 0;
}

bool pattern_list_match(const struct pattern_list *l, const char *provider, const char *event)
{
	for (size_t i = l->n; i-- > 0;)
		if (pattern_match(&l->rules[i], provider, event))
			return l->rules[i].on;
	return false;
}

void pattern_list_fini(struct pattern_list *l)
{
	free(l->rules);
	*l = (struct pattern_list){ 0 };
}
