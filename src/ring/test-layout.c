/* SPDX-License-Identifier: MIT */
/* Words and geometry: what both sides of a pool compute must agree, at every edge. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "ring/layout.h"

static struct pool_geometry usual(void)
{
	return (struct pool_geometry){ .region_shift = 26,
		.n_streams = 4,
		.n_classes = 2,
		.class_shift = { 12, 16 },
		.n_subs = { 1024, 1024 } };
}

static void gens_are_serial(void **unused)
{
	assert_true(gen_after(1, 0));
	assert_false(gen_after(0, 1));
	assert_false(gen_after(7, 7));
	assert_true(gen_after(0, GEN_MASK));
	assert_true(gen_after(5, GEN_MASK - 5));
	assert_false(gen_after(GEN_MASK - 5, 5));
	assert_int_equal(gen_next(GEN_MASK), 0);
	/* Half way round is the furthest that one can be after another. */
	assert_true(gen_after((1u << 30) - 1, 0));
	assert_false(gen_after(1u << 30, 0));
}

static void words_keep_their_parts(void **unused)
{
	uint64_t p = pos_make(GEN_MASK, 1, 0xfedcba98), s;

	assert_int_equal(pos_gen(p), GEN_MASK);
	assert_int_equal(pos_par(p), 1);
	assert_int_equal(pos_off(p), 0xfedcba98);
	p = pos_make(1, 0, 0);
	assert_int_equal(pos_gen(p), 1);
	assert_int_equal(pos_par(p), 0);
	s = state_make(SUB_PROMISED, 30, 4095, 0x1fff, GEN_MASK);
	assert_int_equal(state_kind(s), SUB_PROMISED);
	assert_int_equal(state_ch(s), 30);
	assert_int_equal(state_cpu(s), 4095);
	assert_int_equal(state_ver(s), 0xfff); /* 12 bits */
	assert_int_equal(state_gen(s), GEN_MASK);
	s = pair_make(5, SUB_NONE);
	assert_int_equal(pair_gen(s), 5);
	assert_int_equal(pair_low(s), SUB_NONE);
}

/* Whatever a writer left that died between count and commit, N is the number of commits. */
static void counts_survive_a_death(void **unused)
{
	for (uint64_t n = 0; n < 8; n++) {
		uint64_t pos = pos_make(9, (uint32_t)n & 1, 77);
		uint64_t stored = n + 1; /* by the one who died before its commit */

		assert_int_equal(count_records(n, pos), n);
		assert_int_equal(count_records(stored, pos), n);
	}
}

static void offsets_and_indexes_agree(void **unused)
{
	struct pool_geometry g = usual();
	uint32_t n = geometry_n_subs(&g), end = 0;

	assert_int_equal(n, 2048);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t off = geometry_sub_off(&g, i), size = geometry_sub_size(&g, i);

		assert_true(off >= end);
		assert_int_equal(off % size, 0);
		assert_int_equal(geometry_idx(&g, off), i);
		assert_int_equal(geometry_idx(&g, off + size - 1), i);
		end = off + size;
	}
	assert_true(end <= geometry_span(&g));
	assert_int_equal(geometry_idx(&g, 0), SUB_NONE);
	assert_int_equal(geometry_idx(&g, (1u << 26) - 1), SUB_NONE);
	assert_int_equal(geometry_idx(&g, (1u << 26) + 1024 * 4096), SUB_NONE);
	assert_int_equal(geometry_idx(&g, 3u << 26), SUB_NONE);
	assert_int_equal(geometry_idx(&g, UINT32_MAX), SUB_NONE);
}

/* Header, lines and table of region 0 do not overlap, however many streams there are. */
static void region_0_has_room(void **unused)
{
	static const uint32_t n_streams[] = { 1, 4, 16, 17, 64, 4096 };

	for (size_t k = 0; k < sizeof(n_streams) / sizeof(*n_streams); k++) {
		struct pool_geometry g = usual();
		uint32_t table_end, end;

		g.n_streams = n_streams[k];
		assert_true(geometry_valid(&g));
		table_end = geometry_entry_off(geometry_n_subs(&g));
		if (g.n_streams <= POOL_LINES0_MAX) {
			assert_int_equal(geometry_channel_off(&g, 0), POOL_LINES0_OFF);
			assert_true(POOL_LINES0_OFF + g.n_streams * 64 <= POOL_TABLE_OFF);
			end = table_end;
		} else {
			assert_true(geometry_channel_off(&g, 0) >= table_end);
			end = geometry_channel_off(&g, 0) + g.n_streams * 64;
		}
		for (uint32_t ch = 1; ch < POOL_N_CHANNELS; ch++) {
			assert_true(geometry_channel_off(&g, ch) >= end);
			end = geometry_channel_off(&g, ch) + g.n_streams * 64;
		}
		assert_true(end <= geometry_header_len(&g));
		assert_true(geometry_header_len(&g) <= 1u << g.region_shift);
	}
}

static void bad_geometries_are_refused(void **unused)
{
	struct pool_geometry g;

#define REFUSED(change)                                                                            \
	do {                                                                                       \
		g = usual();                                                                       \
		change;                                                                            \
		assert_false(geometry_valid(&g));                                                  \
	} while (0)
	g = usual();
	assert_true(geometry_valid(&g));
	REFUSED(g.region_shift = 19);
	REFUSED(g.region_shift = 31);
	REFUSED(g.region_shift = UINT32_MAX);
	REFUSED(g.n_streams = 0);
	REFUSED(g.n_streams = POOL_STREAMS_MAX + 1);
	REFUSED(g.n_classes = 0);
	REFUSED(g.n_classes = 4);
	REFUSED(g.class_shift[0] = 11);
	REFUSED(g.class_shift[1] = 27);
	REFUSED(g.class_shift[1] = 12);
	REFUSED(g.class_shift[1] = UINT32_MAX);
	REFUSED(g.n_subs[0] = (1u << 14) + 1);
	REFUSED(g.n_subs[1] = UINT32_MAX);
	REFUSED(g.n_subs[0] = g.n_subs[1] = 0);
	/* 4,096 streams do not fit in front of 1 MiB of sub-buffers. */
	REFUSED(g.region_shift = 20; g.n_streams = 4096; g.n_subs[0] = g.n_subs[1] = 1);
	/* Lines that fit, but not behind the table. */
	REFUSED(g.region_shift = 20; g.n_streams = 528; g.n_subs[0] = 256; g.n_subs[1] = 16);
#undef REFUSED
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gens_are_serial),
		cmocka_unit_test(words_keep_their_parts),
		cmocka_unit_test(counts_survive_a_death),
		cmocka_unit_test(offsets_and_indexes_agree),
		cmocka_unit_test(region_0_has_room),
		cmocka_unit_test(bad_geometries_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
