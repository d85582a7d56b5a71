/* SPDX-License-Identifier: MIT */
/* A program with more events than one message holds. */
#include <varve/varve.h>

#define TEN(m, a, b)                                                                               \
	m(a, b, 0) m(a, b, 1) m(a, b, 2) m(a, b, 3) m(a, b, 4) m(a, b, 5) m(a, b, 6) m(a, b, 7)    \
		m(a, b, 8) m(a, b, 9)
#define HUNDRED(m, a)                                                                              \
	TEN(m, a, 0)                                                                               \
	TEN(m, a, 1)                                                                               \
	TEN(m, a, 2)                                                                               \
	TEN(m, a, 3)                                                                               \
	TEN(m, a, 4) TEN(m, a, 5) TEN(m, a, 6) TEN(m, a, 7) TEN(m, a, 8) TEN(m, a, 9)
#define DEFINE(a, b, c)                                                                            \
	VARVE_EVENT(many, an_event_with_a_long_name_##a##b##c, VARVE_INFO,                         \
		(u32, number_of_the_event_called_##a##b##c));
#define CALL(a, b, c) varve_many_an_event_with_a_long_name_##a##b##c(a * 100 + b * 10 + c);

HUNDRED(DEFINE, 0)
HUNDRED(DEFINE, 1)
HUNDRED(DEFINE, 2)
HUNDRED(DEFINE, 3)
HUNDRED(DEFINE, 4)

int main(void)
{
	HUNDRED(CALL, 0)
	HUNDRED(CALL, 1)
	HUNDRED(CALL, 2)
	HUNDRED(CALL, 3)
	HUNDRED(CALL, 4)
	return 0;
}
