/* SPDX-License-Identifier: MIT */
/* Rules over event names: parsing, matching, and a list in which the last match wins. */

#include "base/pattern.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static struct pattern parse(const char *text)
{
	struct pattern p;

	assert_int_equal(pattern_parse(text, &p, NULL), 0);
	return p;
}

static void add(struct pattern_list *l, const char *text)
{
	struct pattern p = parse(text);

	assert_int_equal(pattern_list_add(l, &p), 0);
}

static bool hits(const char *rule, const char *provider, const char *event)
{
	struct pattern p = parse(rule);

	return pattern_match(&p, provider, event);
}

static void globs_match(void **state)
{
	assert_true(hits("net:rx", "net", "rx"));
	assert_false(hits("net:rx", "net", "rx2"));
	assert_false(hits("net:rx", "ne", "rx"));
	assert_true(hits("*:*", "net", "rx"));
	assert_true(hits("n?t:r*", "net", "r"));
	assert_false(hits("n?t:r*", "nt", "r"));
	assert_true(hits("net:*_done_*", "net", "x_done_done_y"));
	assert_true(hits("net:a*b*c", "net", "aXbXbXc"));
	assert_false(hits("net:a*b*c", "net", "aXbXbX"));
	assert_false(hits("net:?", "net", ""));
}

static void rubbish_is_refused(void **state)
{
	static const char *const bad[] = { "", "net", ":", "net:", ":rx", "!", "!net", "a:b:c",
		"net:r x", "net:r[xy]", "net:\xc3\xa4", "!!a:b" };
	char longest[300];
	const char *why;
	struct pattern p;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		why = NULL;
		assert_int_equal(pattern_parse(bad[i], &p, &why), -EINVAL);
		assert_non_null(why);
	}
	memset(longest, 'a', sizeof(longest));
	longest[127] = ':';
	longest[255] = '\0';
	assert_int_equal(pattern_parse(longest, &p, &why), 0);
	longest[255] = 'a';
	longest[256] = '\0';
	assert_int_equal(pattern_parse(longest, &p, &why), -EINVAL);
}

static void last_match_wins(void **state)
{
	struct pattern_list l = { 0 };

	assert_false(pattern_list_match(&l, "net", "rx"));
	add(&l, "net:*");
	add(&l, "!net:tx_*");
	add(&l, "net:tx_done");
	assert_true(pattern_list_match(&l, "net", "rx"));
	assert_false(pattern_list_match(&l, "net", "tx_start"));
	assert_true(pattern_list_match(&l, "net", "tx_done"));
	assert_false(pattern_list_match(&l, "disk", "rx"));
	pattern_list_fini(&l);
}

static void off_rule_first_means_all_others(void **state)
{
	struct pattern_list l = { 0 };
	char text[PATTERN_TEXT_MAX + 2];

	add(&l, "!net:*");
	assert_int_equal(l.n, 2);
	assert_string_equal(pattern_format(&l.rules[0], text), "*:*");
	assert_string_equal(pattern_format(&l.rules[1], text), "!net:*");
	assert_true(pattern_list_match(&l, "disk", "rx"));
	assert_false(pattern_list_match(&l, "net", "rx"));
	pattern_list_fini(&l);
}

static void pointless_rules_go(void **state)
{
	struct pattern_list l = { 0 };

	add(&l, "a:*");
	for (int i = 0; i < 5000; i++) {
		add(&l, "!net:*");
		add(&l, "net:*");
	}
	assert_int_equal(l.n, 2);
	add(&l, "!*:*");
	assert_int_equal(l.n, 1);
	assert_false(pattern_list_match(&l, "a", "b"));
	pattern_list_fini(&l);
}

static void list_is_bounded(void **state)
{
	struct pattern_list l = { 0 };
	struct pattern p = { .on = true, .provider = "p" };

	for (unsigned i = 0; i < PATTERN_RULES_MAX; i++) {
		for (unsigned k = 0; k < 16; k++)
			p.event[k] = i >> k & 1 ? 'a' : 'b';
		assert_int_equal(pattern_list_add(&l, &p), 0);
	}
	p.event[0] = 'c';
	assert_int_equal(pattern_list_add(&l, &p), -E2BIG);
	assert_int_equal(l.n, PATTERN_RULES_MAX);
	pattern_list_fini(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(globs_match),
		cmocka_unit_test(rubbish_is_refused),
		cmocka_unit_test(last_match_wins),
		cmocka_unit_test(off_rule_first_means_all_others),
		cmocka_unit_test(pointless_rules_go),
		cmocka_unit_test(list_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
