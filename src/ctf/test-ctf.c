/* SPDX-License-Identifier: MIT */

/* Lanes against brute force; record bodies against rubbish; clock offsets. What a whole trace
 * looks like to a reader is test-trace.py's. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "ctf/lanes.h"
#include "ctf/metadata.h"
#include "ctf/record.h"
#include "varve/abi.h"

static uint64_t rng = 88172645463325252u;

static uint64_t rnd(void)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return rng;
}

/* How many of the spans overlap at most, those in lanes only if lanes is set. */
static uint32_t depth(const struct ctf_span *s, uint32_t n, bool lanes)
{
	uint32_t most = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t d = 0;

		if (lanes && s[i].lane == CTF_LANE_MERGED)
			continue;
		for (uint32_t k = 0; k < n; k++)
			if (!(lanes && s[k].lane == CTF_LANE_MERGED) && s[k].begin <= s[i].begin &&
				(s[k].end > s[i].begin || k == i))
				d++;
		most = d > most ? d : most;
	}
	return most;
}

static void lanes_hold(void **state)
{
	enum { N = 300 };
	static struct ctf_span s[N];
	static uint32_t order[N];

	for (int round = 0; round < 200; round++) {
		uint32_t n = (uint32_t)(rnd() % N), max = 1 + (uint32_t)(rnd() % 40), merged = 0;
		uint64_t range = 1 + rnd() % 1000, len = 1 + rnd() % 200;
		uint64_t ends[64] = { 0 };
		int n_lanes;

		for (uint32_t i = 0; i < n; i++) {
			s[i].begin = rnd() % range;
			s[i].end = s[i].begin + rnd() % len;
			s[i].size = (uint32_t)(rnd() % 100);
		}
		n_lanes = ctf_lanes_plan(s, order, n, max);
		assert_true(n_lanes >= 0 && (uint32_t)n_lanes <= max);
		for (uint32_t i = 0; i < n; i++) {
			const struct ctf_span *x = &s[order[i]];

			if (i > 0)
				assert_true(s[order[i - 1]].begin <= x->begin);
			if (x->lane == CTF_LANE_MERGED) {
				merged++;
				continue;
			}
			assert_true(x->lane < (uint32_t)n_lanes);
			assert_true(ends[x->lane] <= x->begin);
			ends[x->lane] = x->end;
		}
		if (depth(s, n, false) <= max)
			assert_int_equal(merged, 0);
		assert_true((uint32_t)n_lanes <= depth(s, n, true) + (n_lanes > 0));
	}
}

static void lanes_keep_streams_together(void **state)
{
	/* Two streams, each packet beginning where the one before it ended. */
	struct ctf_span s[20];
	uint32_t order[20];

	for (uint32_t i = 0; i < 20; i++) {
		uint64_t at = 100 * (i / 2) + 50 * (i % 2);

		s[i] = (struct ctf_span){ at, at + 100, 1, 0 };
	}
	assert_int_equal(ctf_lanes_plan(s, order, 20, 100), 2);
	for (uint32_t i = 0; i < 20; i++)
		assert_int_equal(s[i].lane, i % 2);
}

static void lanes_merge_the_smallest(void **state)
{
	struct ctf_span s[5];
	uint32_t order[5];

	for (uint32_t i = 0; i < 5; i++)
		s[i] = (struct ctf_span){ i, 10, 10 * (i ^ 2), 0 };
	assert_int_equal(ctf_lanes_plan(s, order, 5, 3), 3);
	for (uint32_t i = 0; i < 5; i++) /* sizes 20, 30, 0, 10, 60 */
		assert_int_equal(s[i].lane == CTF_LANE_MERGED, i == 2 || i == 3);
}

static void bodies_are_bounded(void **state)
{
	static const uint8_t types[] = { VARVE_T_U8, VARVE_T_X64, VARVE_T_F32, VARVE_T_BOOL,
		VARVE_T_STR, VARVE_T_ARRAY, VARVE_T_SEQ, VARVE_T_TEXT, VARVE_T_TEXTSEQ,
		VARVE_T_ENUM };
	struct wire_field f[8];
	struct wire_event e = { VARVE_INFO, 0, "p", "e", f };

	for (int round = 0; round < 200000; round++) {
		uint32_t avail = (uint32_t)(rnd() % 64), len;
		uint8_t *body = malloc(avail + 1); /* exact, for the sanitizer */

		assert_non_null(body);
		for (uint32_t i = 0; i < avail; i++)
			body[i] = (uint8_t)(rnd() >> (rnd() & 63));
		e.n_fields = (uint32_t)(rnd() % 8);
		for (uint32_t i = 0; i < e.n_fields; i++)
			f[i] = (struct wire_field){ types[rnd() % sizeof(types)], VARVE_T_U64,
				(uint32_t)(rnd() % 3 ? rnd() % 5 : rnd()), "x", 0, NULL };
		len = ctf_body_len(&e, body, avail);
		assert_true(len == 0 || (len >= CTF_CONTEXT_SIZE && len <= avail));
		free(body);
	}
}

static void clock_offsets_are_exact(void **state)
{
	int64_t s;
	uint64_t o;

	ctf_clock_offset(1000000000, 5, 1795965000123456789, &s, &o);
	assert_int_equal(s, 1795965000);
	assert_int_equal(o, 123456784);
	ctf_clock_offset(1000, 7000, 1000000000, &s, &o); /* up for longer than the epoch */
	assert_int_equal(s, -6);
	assert_int_equal(o, 0);
	ctf_clock_offset(3, UINT64_C(30000000000), UINT64_C(1795965000000000000), &s, &o);
	assert_int_equal(s, 1795965000 - 10000000000);
	assert_int_equal(o, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lanes_hold),
		cmocka_unit_test(lanes_keep_streams_together),
		cmocka_unit_test(lanes_merge_the_smallest),
		cmocka_unit_test(bodies_are_bounded),
		cmocka_unit_test(clock_offsets_are_exact),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
