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

/* Which parties a call is about. */
enum who { LIVING = 1, DEAD = 2, ALL = LIVING | DEAD, OF_UID = 4 };

struct choice {
	enum who who;
	uint32_t uid; /* of OF_UID */
};

static bool counts(const struct balance_party *p, struct choice c)
{
	return c.who == OF_UID ? p->uid == c.uid : c.who & (p->dead ? DEAD : LIVING);
}

/* The level, but at least the floor and at most the want. */
static uint64_t share_at(const struct balance_party *p, uint64_t level)
{
	uint64_t share = min_u64(party_want(p), level);

	return share > p->floor ? share : p->floor;
}

static uint64_t cost_at(const struct balance_party *p, size_t n, struct choice c, uint64_t level)
{
	uint64_t cost = 0;

	for (size_t i = 0; i < n; i++)
		if (counts(&p[i], c))
			cost += share_at(&p[i], level);
	return cost;
}

/* Finds by halving the highest level that total pays for: 0 if not even the floors fit. */
static void fill(struct balance_party *p, size_t n, struct choice c, uint64_t total)
{
	uint64_t low = 0, high = total;

	while (low < high) {
		uint64_t level = high - (high - low) / 2;

		if (cost_at(p, n, c, level) <= total)
			low = level;
		else
			high = level - 1;
	}
	for (size_t i = 0; i < n; i++)
		if (counts(&p[i], c))
			p[i].share = share_at(&p[i], low);
}

void balance_fill(struct balance_party *parties, size_t n, uint64_t total)
{
	uint64_t dead_share = 0, living_want = 0, dead_max;

	fill(parties, n, (struct choice){ ALL }, total);
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
	fill(parties, n, (struct choice){ DEAD }, dead_max);
	fill(parties, n, (struct choice){ LIVING }, total - dead_max);
}

void balance_uid_limit(struct balance_party *parties, size_t n, uint64_t max)
{
	for (size_t i = 0; i < n; i++) {
		struct choice c = { OF_UID, parties[i].uid };
		bool first = true;

		for (size_t k = 0; k < i && first; k++)
			first = parties[k].uid != c.uid;
		if (!first || cost_at(parties, n, c, UINT64_MAX) <= max)
			continue;
		fill(parties, n, c, max);
		for (size_t k = i; k < n; k++)
			if (parties[k].uid == c.uid)
				parties[k].need = parties[k].share;
	}
}
