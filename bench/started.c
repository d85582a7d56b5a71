/* SPDX-License-Identifier: MIT */
/* What bench-start starts: a program that does nothing, with or without one event. */
#ifdef TRACED
#include <varve/varve.h>

VARVE_EVENT(bench, started, VARVE_INFO, (u32, n));
#endif

int main(void)
{
#ifdef TRACED
	varve_bench_started(1);
#endif
	return 0;
}
