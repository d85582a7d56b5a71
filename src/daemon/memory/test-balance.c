/* SPDX-License-Identifier: MIT */
/* Shares of a budget: numbers in, numbers out. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "daemon/memory/balance.h"

#define N(a) (sizeof(a) / sizeof((a)[0]))

static uint64_t sum(const struct balance_party *p, size_t n)
{
	uint64_t s = 0;

	for (size_t i = 0; i < n; i++)
		s += p[i].share;
	return s;
}

static void all_get_their_need_while_it_lasts(void **state)
{
	struct balance_party p[] = { { .need = 100 }, { .need = 300 },
		{ .need = 50, .dead = true } };

	balance_fill(p, N(p), 450);
	assert_int_equal(p[0].share, 100);
	assert_int_equal(p[1].share, 300);
	assert_int_equal(p[2].share, 50);
}

static void quiet_ones_keep_all_and_loud_ones_share_the_rest(void **state)
{
	struct balance_party p[] = { { .need = 10 }, { .need = 20 }, { .need = 1000 },
		{ .need = 5000 } };

	balance_fill(p, N(p), 430);
	assert_int_equal(p[0].share, 10);
	assert_int_equal(p[1].share, 20);
	assert_int_equal(p[2].share, 200);
	assert_int_equal(p[3].share, 200);
}

static void floors_are_kept(void **state)
{
	struct balance_party p[] = { { .need = 0, .floor = 16 }, { .need = 1000, .floor = 16 },
		{ .need = 1000, .floor = 300 } };

	balance_fill(p, N(p), 416);
	assert_int_equal(p[0].share, 16);
	assert_int_equal(p[1].share, 100);
	assert_int_equal(p[2].share, 300);
	/* Even where they do not fit: the caller's memory decides then. */
	balance_fill(p, N(p), 100);
	assert_int_equal(p[0].share, 16);
	assert_int_equal(p[1].share, 16);
	assert_int_equal(p[2].share, 300);
}

static void dead_get_half_while_the_living_need_the_rest(void **state)
{
	struct balance_party p[] = { { .need = 1000 }, { .need = 1000, .dead = true },
		{ .need = 1000, .dead = true }, { .need = 1000, .dead = true } };

	balance_fill(p, N(p), 600);
	assert_int_equal(p[0].share, 300);
	assert_int_equal(p[1].share, 100);
	/* What the living do not need, the dead may have. */
	p[0].need = 60;
	balance_fill(p, N(p), 600);
	assert_int_equal(p[0].share, 60);
	assert_int_equal(p[1].share, 180);
}

static void uid_is_held_to_its_part(void **state)
{
	struct balance_party p[] = { { .need = 1000, .uid = 1 }, { .need = 20, .uid = 1 },
		{ .need = 1000, .uid = 1, .dead = true }, { .need = 1000, .uid = 2 },
		{ .need = 100, .uid = 3 } };

	balance_uid_limit(p, N(p), 300);
	balance_fill(p, N(p), 1000);
	assert_int_equal(p[0].share, 140);
	assert_int_equal(p[1].share, 20);
	assert_int_equal(p[2].share, 140);
	assert_int_equal(p[3].share, 300);
	assert_int_equal(p[4].share, 100);
}

/* What max-min fairness means, on random numbers: who gets less than it wants has no party above it
 * but such as stand on their floor; and nothing is left while somebody wants. */
static void is_max_min_fair(void **state)
{
	unsigned seed = 1;

	for (int round = 0; round < 2000; round++) {
		struct balance_party p[20];
		size_t n = 1 + (size_t)(rand_r(&seed) % 20);
		uint64_t total = 0, floors = 0, level = 0;
		bool wants = false;

		for (size_t i = 0; i < n; i++) {
			p[i] = (struct balance_party){
				.need = (uint64_t)(rand_r(&seed) % 1000),
				.floor = (uint64_t)(rand_r(&seed) % 30),
			};
			floors += p[i].floor;
		}
		total = floors + (uint64_t)(rand_r(&seed) % 4000);
		balance_fill(p, n, total);
		assert_true(sum(p, n) <= total);
		for (size_t i = 0; i < n; i++) {
			assert_true(p[i].share >= p[i].floor);
			if (p[i].share < p[i].need) {
				wants = true;
				if (p[i].share > level)
					level = p[i].share;
			}
		}
		for (size_t i = 0; i < n && wants; i++)
			assert_true(p[i].share <= level || p[i].share == p[i].floor);
		if (wants)
			assert_true(total - sum(p, n) < n);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_get_their_need_while_it_lasts),
		cmocka_unit_test(quiet_ones_keep_all_and_loud_ones_share_the_rest),
		cmocka_unit_test(floors_are_kept),
		cmocka_unit_test(dead_get_half_while_the_living_need_the_rest),
		cmocka_unit_test(uid_is_held_to_its_part),
		cmocka_unit_test(is_max_min_fair),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
