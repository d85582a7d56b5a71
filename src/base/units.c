/* SPDX-License-Identifier: MIT */
/*
 * Sizes and times as text: see units.h. A number is digits and one suffix out of a table; the
 * whole text must be used up, so a typing error is never half understood.
 */

#include "base/units.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct unit {
	const char *suffix;
	uint64_t factor;
};

static const struct unit size_units[] = {
	{ "", 1 },
	{ "B", 1 },
	{ "K", UINT64_C(1) << 10 },
	{ "KB", UINT64_C(1) << 10 },
	{ "KiB", UINT64_C(1) << 10 },
	{ "k", UINT64_C(1) << 10 },
	{ "M", UINT64_C(1) << 20 },
	{ "MB", UINT64_C(1) << 20 },
	{ "MiB", UINT64_C(1) << 20 },
	{ "G", UINT64_C(1) << 30 },
	{ "GB", UINT64_C(1) << 30 },
	{ "GiB", UINT64_C(1) << 30 },
	{ NULL, 0 },
};

#define NS_PER_S UINT64_C(1000000000)

static const struct unit time_units[] = {
	{ "", NS_PER_S },
	{ "ns", 1 },
	{ "us", 1000 },
	{ "ms", 1000000 },
	{ "s", NS_PER_S },
	{ "m", 60 * NS_PER_S },
	{ "min", 60 * NS_PER_S },
	{ "h", 3600 * NS_PER_S },
	{ "d", 86400 * NS_PER_S },
	{ NULL, 0 },
};

static int number_parse(const char *text, const struct unit *units, uint64_t *ret_value)
{
	const char *p = text;
	uint64_t n = 0;

	if (*p < '0' || *p > '9')
		return -EINVAL;
	for (; *p >= '0' && *p <= '9'; p++) {
		if (n > (INT64_MAX - 9) / 10)
			return -ERANGE;
		n = n * 10 + (uint64_t)(*p - '0');
	}
	for (; units->suffix; units++) {
		if (strcmp(p, units->suffix) != 0)
			continue;
		if (n > INT64_MAX / units->factor)
			return -ERANGE;
		*ret_value = n * units->factor;
		return 0;
	}
	return -EINVAL;
}

int units_size_parse(const char *text, uint64_t *ret_bytes)
{
	return number_parse(text, size_units, ret_bytes);
}

int units_time_parse(const char *text, uint64_t *ret_ns)
{
	return number_parse(text, time_units, ret_ns);
}

const char *units_size_format(char buf[UNITS_FORMAT_MAX], uint64_t bytes)
{
	static const char letters[] = "KMGTPE";
	const char *letter = letters;
	uint64_t scaled = bytes; /* in units of 1/1024 of the letter */
	bool whole = true;	 /* nothing was cut off */

	if (bytes < 1024) {
		snprintf(buf, UNITS_FORMAT_MAX, "%" PRIu64, bytes);
		return buf;
	}
	for (; scaled >= UINT64_C(1) << 20; scaled >>= 10) {
		whole = whole && scaled % 1024 == 0;
		letter++;
	}
	if (scaled < 100 * 1024 && !(whole && scaled % 1024 == 0))
		snprintf(buf, UNITS_FORMAT_MAX, "%" PRIu64 ".%" PRIu64 "%c", scaled / 1024,
			scaled % 1024 * 10 / 1024, *letter);
	else
		snprintf(buf, UNITS_FORMAT_MAX, "%" PRIu64 "%c", scaled / 1024, *letter);
	return buf;
}

const char *units_time_format(char buf[UNITS_FORMAT_MAX], uint64_t ns)
{
	uint64_t s = ns / NS_PER_S;

	if (ns < 1000)
		snprintf(buf, UNITS_FORMAT_MAX, "%" PRIu64 "ns", ns);
	else if (ns < 1000000)
		snprintf(buf, UNITS_FORMAT_MAX, "%" PRIu64 "us", ns / 1000);
	else if (s < 1)
		snprintf(buf, UNITS_FORMAT_MAX, "%" PRIu64 "ms", ns / 1000000);
	else if (s < 120)
		snprintf(buf, UNITS_FORMAT_MAX, "%" PRIu64 ".%" PRIu64 "s", s,
			ns % NS_PER_S / (NS_PER_S / 10));
	else if (s < 2 * 3600)
		snprintf(buf, UNITS_FORMAT_MAX, "%" PRIu64 "m%02" PRIu64 "s", s / 60, s % 60);
	else
		snprintf(
			buf, UNITS_FORMAT_MAX, "%" PRIu64 "h%02" PRIu64 "m", s / 3600, s / 60 % 60);
	return buf;
}

const char *units_count_format(char buf[UNITS_COUNT_MAX], uint64_t n)
{
	char *p = buf + UNITS_COUNT_MAX - 1;
	unsigned digits = 0;

	*p = '\0';
	do {
		if (digits && digits % 3 == 0)
			*--p = ' ';
		*--p = (char)('0' + n % 10);
		n /= 10;
		digits++;
	} while (n);
	return memmove(buf, p, strlen(p) + 1);
}
