/* SPDX-License-Identifier: MIT */
/* Sizes and times: what is accepted, what is not, and how they are shown. */

#include "base/units.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static void sizes_are_read(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} good[] = {
		{ "0", 0 },
		{ "4096", 4096 },
		{ "64M", 64 << 20 },
		{ "64MiB", 64 << 20 },
		{ "1G", 1 << 30 },
		{ "8k", 8192 },
		{ "8KB", 8192 },
		{ "12B", 12 },
		{ "8589934591G", UINT64_C(8589934591) << 30 },
	};
	uint64_t n;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_int_equal(units_size_parse(good[i].text, &n), 0);
		assert_int_equal(n, good[i].bytes);
	}
}

static void rubbish_is_no_size(void **state)
{
	static const char *const bad[] = { "", "M", "-1", "+1", " 1", "1 ", "1 M", "1.5M", "64MX",
		"0x10", "64Mi", "64T", "64m", "1s" };
	uint64_t n = 7;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(units_size_parse(bad[i], &n), -EINVAL);
	assert_int_equal(units_size_parse("8589934592G", &n), -ERANGE);
	assert_int_equal(units_size_parse("9223372036854775808", &n), -ERANGE);
	assert_int_equal(units_size_parse("99999999999999999999999", &n), -ERANGE);
	assert_int_equal(n, 7);
}

static void times_are_read(void **state)
{
	uint64_t n;

	assert_int_equal(units_time_parse("30s", &n), 0);
	assert_int_equal(n, UINT64_C(30000000000));
	assert_int_equal(units_time_parse("30", &n), 0);
	assert_int_equal(n, UINT64_C(30000000000));
	assert_int_equal(units_time_parse("250ms", &n), 0);
	assert_int_equal(n, 250000000);
	assert_int_equal(units_time_parse("2m", &n), 0);
	assert_int_equal(n, UINT64_C(120000000000));
	assert_int_equal(units_time_parse("2h", &n), 0);
	assert_int_equal(n, UINT64_C(7200000000000));
	assert_int_equal(units_time_parse("30M", &n), -EINVAL);
	assert_int_equal(units_time_parse("s", &n), -EINVAL);
	assert_int_equal(units_time_parse("106752d", &n), -ERANGE);
}

static void numbers_are_shown(void **state)
{
	char b[UNITS_FORMAT_MAX], c[UNITS_COUNT_MAX];

	assert_string_equal(units_size_format(b, 0), "0");
	assert_string_equal(units_size_format(b, 1023), "1023");
	assert_string_equal(units_size_format(b, 4096), "4K");
	assert_string_equal(units_size_format(b, 4097), "4.0K");
	assert_string_equal(units_size_format(b, 5 << 9), "2.5K");
	assert_string_equal(units_size_format(b, 32 << 20), "32M");
	assert_string_equal(units_size_format(b, (32 << 20) - 1), "31.9M");
	assert_string_equal(units_size_format(b, UINT64_MAX), "15.9E");
	assert_string_equal(units_time_format(b, 850000000), "850ms");
	assert_string_equal(units_time_format(b, UINT64_C(30000000000)), "30.0s");
	assert_string_equal(units_time_format(b, UINT64_C(725000000000)), "12m05s");
	assert_string_equal(units_time_format(b, UINT64_C(11220000000000)), "3h07m");
	assert_string_equal(units_count_format(c, 0), "0");
	assert_string_equal(units_count_format(c, 999), "999");
	assert_string_equal(units_count_format(c, 1234567), "1 234 567");
	assert_string_equal(units_count_format(c, UINT64_MAX), "18 446 744 073 709 551 615");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_are_read),
		cmocka_unit_test(rubbish_is_no_size),
		cmocka_unit_test(times_are_read),
		cmocka_unit_test(numbers_are_shown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
