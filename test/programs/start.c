/* SPDX-License-Identifier: MIT */
/*
 * start [N]: the smallest program there is, with one event (start) and without any (start-bare).
 * With N, emits N events, says "ready" and waits until stdin ends; without, emits one and exits.
 */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef BARE
static void varve_test_start(uint32_t n)
{
	(void)n;
}
#else
#include <varve/varve.h>
VARVE_EVENT(test, start, VARVE_INFO, (u32, n));
#endif

int main(int argc, char **argv)
{
	uint32_t n = argc > 1 ? (uint32_t)atoi(argv[1]) : 1;

	for (uint32_t i = 0; i < n; i++)
		varve_test_start(i);
	if (argc > 1) {
		puts("ready");
		fflush(stdout);
		while (getchar() != EOF)
			;
	}
	return 0;
}
