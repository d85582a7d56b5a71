/* SPDX-License-Identifier: MIT */
/* Every kind of field, for a C and a C++ unit, which include it once each. */

#include <float.h>
#include <stdbool.h>
#include <string.h>
#include "lib/test/subject.h"

enum weather { SUN, RAIN, SNOW };

VARVE_ENUM(weather, ("sun", SUN), ("rain", RAIN), ("snow", SNOW));
VARVE_ENUM(depth, ("below zero", -100, -1), ("zero", 0), ("above", 1, 100), ("odd", 7));
VARVE_EVENT(types, none, VARVE_EMERG);
VARVE_EVENT(types, unsigned_, VARVE_ALERT, (u8, a), (u16, b), (u32, c), (u64, d));
VARVE_EVENT(types, signed_, VARVE_CRIT, (i8, a), (i16, b), (i32, c), (i64, d));
VARVE_EVENT(types, hex, VARVE_ERR, (x8, a), (x16, b), (x32, c), (x64, d));
VARVE_EVENT(types, other, VARVE_WARNING, (bool, yes), (bool, no), (float, f), (double, d));
VARVE_EVENT(types, strings, VARVE_NOTICE, (str, a), (str, null), (str, empty), (text, t, 4),
	(text, t_long, 4), (text, t_null, 8), (textseq, s), (textseq, s_null));
VARVE_EVENT(types, arrays, VARVE_INFO, (array, i16, a, 3), (array, double, null, 2), (seq, x8, s),
	(seq, u64, s_null), (seq, float, s_empty), (seq, i32, s_wide));
VARVE_EVENT(types, enums, VARVE_DEBUG, (enumeration, u8, w, weather), (enumeration, i32, d, depth),
	(enumeration, i64, d2, depth), (enumeration, u16, other, weather));
/* Keywords as names of fields; 20 fields. */
VARVE_EVENT(types, many, VARVE_DEBUG_LINE, (u8, int), (u8, new), (u8, class), (u8, default),
	(u8, e), (u8, f), (u8, g), (u8, h), (u8, i), (u8, j), (u8, k), (u8, l), (u8, m), (u8, n),
	(u8, o), (u8, p), (u8, q), (u8, r), (u8, s), (u8, t));
VARVE_EVENT(types, long_, VARVE_INFO, (str, first), (u32, between), (str, second), (seq, u64, rest),
	(u32, last));
VARVE_EVENT(types, full, VARVE_INFO, (array, u8, a, VARVE_RECORD_MAX));

static void emit_types(void)
{
	static const int16_t a16[3] = { -1, 0, 1 };
	static const uint8_t x8[2] = { 0xab, 1 };
	static const int32_t i32[1] = { -70000 };
	static const uint64_t u64[600] = { 1, 2, 3 };
	static char big[5000];
	static uint8_t full[VARVE_RECORD_MAX];

	memset(big, 'x', sizeof(big) - 1);
	varve_types_none();
	varve_types_unsigned_(UINT8_MAX, UINT16_MAX, UINT32_MAX, UINT64_MAX);
	varve_types_signed_(INT8_MIN, INT16_MIN, INT32_MIN, INT64_MIN);
	varve_types_hex(0xff, 0xfffe, 0xfffffffd, 0xfffffffffffffffc);
	varve_types_other(true, false, 1.5f, -2.25);
	varve_types_strings("abc", NULL, "", "de", "fghijk", NULL, "lm\"n", 3, NULL, 77);
	varve_types_arrays(a16, NULL, x8, 2, NULL, 5, (const float *)big, 0, i32, 1);
	varve_types_enums(RAIN, -5, 7, 9);
	varve_types_many(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20);
	varve_types_long_("short", 1, "also", u64, 3, 2);
	varve_types_long_(big, 1, "cut", u64, 600, 2);
	varve_types_long_("short", 1, "also", u64, 600, 2);
	varve_types_full(full);
}
