/* SPDX-License-Identifier: MIT */
/* What must compile without a word, in every language and by every compiler. */

/* The header first and alone: it needs nothing before it. */
#include <varve/varve.h>
#include <varve/varve.h>
#include <stdbool.h>

enum state { IDLE, BUSY };

VARVE_ENUM(state, ("idle", IDLE), ("busy", BUSY), ("rest", 2, 255));
VARVE_ENUM(sign, ("minus", -5, -1), ("zero", 0));
VARVE_EVENT(ok, none, VARVE_EMERG);
VARVE_EVENT(ok, one, VARVE_DEBUG, (u32, len));
VARVE_EVENT(ok, all, VARVE_INFO, (u8, a), (u16, b), (u32, c), (u64, d), (i8, e), (i16, f), (i32, g),
	(i64, h), (x8, i), (x16, j), (x32, k), (x64, l), (bool, m), (float, n), (double, o),
	(str, p), (array, u32, q, 3), (seq, double, r), (text, s, 8), (textseq, t),
	(enumeration, u8, u, state), (enumeration, i64, v, sign));
VARVE_EVENT(ok, unused, VARVE_INFO, (str, text));
VARVE_EVENT(ok, keywords, VARVE_INFO, (u8, int), (u8, class), (str, this), (str, register));
/* Names that the code behind the macro uses itself, or libc. */
VARVE_EVENT(ok, names, VARVE_INFO, (str, payload), (str, left), (str, p), (u32, index), (u32, n),
	(seq, u8, e), (u32, len), (u32, size), (u32, time));

static inline void in_a_header(const char *text)
{
	varve_ok_one(5);
	if (varve_enabled(ok, all))
		varve_printf(VARVE_ERR, "%s", text);
}

int use(int argc, char **argv);

int use(int argc, char **argv)
{
	const uint32_t q[3] = { 1, 2, 3 };
	double r[2] = { 1.5, 2.5 };

	varve_ok_none();
	varve_ok_all(1, 2, 3, 4, -1, -2, -3, -4, 1, 2, 3, 4, true, 1.5f, 2.5, "p", q, r, 2, "text",
		"seq", 3, BUSY, -3);
	varve_ok_keywords(1, 2, "this", argv[0]);
	varve_ok_names(argv[0], "literal", NULL, 1, 2, (const uint8_t *)"bytes", 5, 3, 4, 5);
	varve_printf(VARVE_INFO, "no arguments");
	varve_printf(argc > 1 ? VARVE_INFO : VARVE_ERR, "%d %s", argc, argv[0]);
	if (argc > 2)
		varve_printf(VARVE_INFO, "a statement");
	else
		in_a_header(argv[0]);
	return 0;
}
