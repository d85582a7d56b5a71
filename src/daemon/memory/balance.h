/* SPDX-License-Identifier: MIT */
#ifndef VARVE_DAEMON_BALANCE_H
#define VARVE_DAEMON_BALANCE_H

/*
 * Who gets how many bytes of a budget: max-min fair by need (water-filling).
 *
 * Parties are the living processes, one each, and per uid all its dead together. Nobody gets more
 * than it needs nor less than its floor; who needs more than the level gets the level. The dead
 * together get at most half while the living need more than the other half.
 *
 * Numbers in, numbers out; grant.c applies them.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct balance_party {
	uint64_t need;	/* bytes that it holds or could fill within the window */
	uint64_t floor; /* bytes that it has in any case: its minimum */
	uint32_t uid;
	bool dead;
	uint64_t share; /* result */
};

/* Lowers the needs of each uid's parties, fairly among them, so that it gets at most max in all; but
 * nobody's below its floor. Before balance_fill(). */
void balance_uid_limit(struct balance_party *parties, size_t n, uint64_t max);

void balance_fill(struct balance_party *parties, size_t n, uint64_t total);

#endif
