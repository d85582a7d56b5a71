/* SPDX-License-Identifier: MIT */
/* Max-min fairness: see balance.h. Everybody has its floor, and is raised to the highest level that
 * the budget pays for. */

#include "daemon/memory/balance.h"

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t party_want(const struct balance_party *p)
{
	return p->need > p->floor ? p->need : p->floor;
}

enum who { LIVING = 1, DEAD = 2, ALL = LIVING | DEAD };

static bool counts(const struct balance_party *p, enum who who)
{
	return who & (p->dead ? DEAD : LIVING);
}

/* The level, but at least the floor and at most the want. */
static uint64_t share_at(const struct balance_party *p, uint64_t level)
{
	uint64_t share = min_u64(party_want(p), level);

	return share > p->floor ? share : p->floor;
}

static uint64_t cost_at(const struct balance_party *p, size_t n, enum who who, uint64_t level)
{
	uint64_t cost = 0;

	for (size_t i = 0; i < n; i++)
		if (counts(&p[i], who))
			cost += share_at(&p[i], level);
	return cost;
}

/* Finds by halving the highest level that total pays for: 0 if not even the floors fit. */
static void fill(struct balance_party *p, size_t n, enum who who, uint64_t total)
{
	uint64_t low = 0, high = total;

	while (low < high) {
		uint64_t level = high - (high - low) / 2;

		if (cost_at(p, n, who, level) <= total)
			low = level;
		else
			high = level - 1;
	}
	for (size_t i = 0; i < n; i++)
		if (counts(&p[i], who))
			p[i].share = share_at(&p[i], low);
}

void balance_fill(struct balance_party *parties, size_t n, uint64_t total)
{
	uint64_t dead_share = 0, living_want = 0, dead_max;

	fill(parties, n, ALL, total);
	for (size_t i = 0; i < n; i++) {
		if (parties[i].dead)
			dead_share += parties[i].share;
		else
			living_want += party_want(&parties[i]);
	}
	dead_max = total - min_u64(living_want, total);
	if (dead_max < total / 2)
		dead_max = total / 2;
	if (dead_share <= dead_max)
		return;
	fill(parties, n, DEAD, dead_max);
	fill(parties, n, LIVING, total - dead_max);
}
