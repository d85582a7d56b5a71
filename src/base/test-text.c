/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "base/text.h"

static void clean(const char *from, size_t n, const char *want)
{
	char to[64];

	text_clean(to, from, n);
	assert_string_equal(to, want);
}

static void only_text_is_left(void **state)
{
	clean("plain", 5, "plain");
	clean("pl\0ain", 6, "pl");
	clean("a\nb\x7f", 4, "a?b?");
	clean("gr\xc3\xbc\xc3\x9f"
	      "e",
		7,
		"gr\xc3\xbc\xc3\x9f"
		"e");
	clean("\xf0\x9f\x90\x9f", 4, "\xf0\x9f\x90\x9f");
	clean("cut\xc3", 4, "cut?");
	clean("\xc0\xaf", 2, "??");	 /* overlong */
	clean("\xed\xa0\x80", 3, "???"); /* half of a pair of UTF-16 */
	clean("\xf5\x80\x80\x80", 4, "????");
	clean("", 0, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(only_text_is_left) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
