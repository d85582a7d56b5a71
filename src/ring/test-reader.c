/* SPDX-License-Identifier: MIT */
/* What the reader believes and what not: packets made by hand, right but for one thing each. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "ring/ring.h"

#define BEGIN 0x7ffffff00ull /* low half about to wrap */
#define GEN   5u

static uint8_t copy[POOL_PAGE];
static struct ring_packet packet;

/* Bodies of these tests: u8 length of the body, filler. */
static uint32_t body_len(void *arg, uint32_t id, const uint8_t *body, uint32_t avail)
{
	return avail == 0 || id == 0 || id > 70000 ? 0 : body[0];
}

static void put(const void *data, size_t len)
{
	memcpy(copy + packet.size, data, len);
	packet.size += (uint32_t)len;
}

static void put_body(uint8_t len)
{
	uint8_t body[256] = { len };

	put(body, len);
}

static void put_compact(uint16_t id, uint32_t low, uint8_t len)
{
	put(&id, 2);
	put(&low, 4);
	put_body(len);
}

static void put_extended(uint32_t id, uint64_t ts, uint8_t len)
{
	put(&(uint16_t){ RECORD_ESCAPE }, 2);
	put(&id, 4);
	put(&ts, 8);
	put_body(len);
}

static int start(void **state)
{
	struct sub_header h = { state_make(SUB_ACTIVE, 2, 1, 0, GEN), BEGIN, 100, 0 };

	packet = (struct ring_packet){ .idx = 3,
		.ch = 2,
		.stream = 1,
		.gen = GEN,
		.begin_ts = BEGIN,
		.end_ts = BEGIN + 0x10000 };
	put(&h, sizeof(h));
	return 0;
}

static uint32_t n_records;
static uint64_t times[16];

static void on_record(void *arg, const struct ring_record *r)
{
	times[n_records++] = r->ts;
}

static int verify(uint64_t now)
{
	uint8_t *end = malloc(packet.size ? packet.size : 1);
	uint32_t n = 0;
	uint64_t last = 0;
	int r;

	/* In a buffer of exactly that size, so that sanitizers see a look beyond it. */
	assert_non_null(end);
	memcpy(end, copy, packet.size);
	n_records = 0;
	r = ring_verify(&packet, end, now, body_len, on_record, NULL, &n, &last);
	free(end);
	if (r == 0) {
		assert_int_equal(n, n_records);
		assert_int_equal(last, n ? times[n - 1] : BEGIN);
	}
	return r;
}

static void good_packet_is_believed(void **state)
{
	assert_int_equal(verify(0), 0); /* an empty one, too */
	assert_int_equal(n_records, 0);
	put_compact(1, 0xffffff00, 4); /* at begin_ts itself */
	put_compact(65534, 0xfffffff0, 1);
	put_compact(7, 0x00000010, 200); /* the low half wrapped */
	put_extended(65535, 0x800000020ull, 9);
	put_compact(1, 0x30, 4);
	assert_int_equal(verify(0), 0);
	assert_int_equal(n_records, 5);
	assert_true(times[0] == BEGIN);
	assert_true(times[1] == 0x7fffffff0ull);
	assert_true(times[2] == 0x800000010ull);
	assert_true(times[3] == 0x800000020ull);
	assert_true(times[4] == 0x800000030ull);
}

static void bad_headers_are_not(void **state)
{
	put_compact(1, 0xffffff00, 4);
	packet.gen++;
	assert_int_equal(verify(0), 1 + LEFT_BAD_HEADER);
	packet.gen--;
	packet.stream++;
	assert_int_equal(verify(0), 1 + LEFT_BAD_HEADER);
	packet.stream--;
	packet.ch++;
	assert_int_equal(verify(0), 1 + LEFT_BAD_HEADER);
	packet.ch--;
	packet.begin_ts++;
	assert_int_equal(verify(0), 1 + LEFT_BAD_HEADER);
	packet.begin_ts--;
	packet.end_ts = BEGIN - 1;
	assert_int_equal(verify(0), 1 + LEFT_BAD_HEADER);
	packet.end_ts = BEGIN;
	assert_int_equal(verify(0), 0);
	packet.size = SUB_HEADER_SIZE - 1;
	assert_int_equal(verify(0), 1 + LEFT_BAD_HEADER);
	packet.size = 0;
	assert_int_equal(verify(0), 1 + LEFT_BAD_HEADER);
}

static void records_must_tile(void **state)
{
	uint32_t size;

	put_compact(1, 0xffffff00, 40);
	put_extended(3, BEGIN + 1, 10);
	size = packet.size;
	assert_int_equal(verify(0), 0);
	for (packet.size = SUB_HEADER_SIZE + 1; packet.size < size; packet.size++) {
		int r = verify(0);

		assert_int_equal(r, packet.size == SUB_HEADER_SIZE + 46 ? 0 : 1 + LEFT_BAD_RECORD);
	}
	packet.size = size;
	put_compact(0, 0xffffff01, 4); /* id 0 belongs to nobody */
	assert_int_equal(verify(0), 1 + LEFT_BAD_RECORD);
	packet.size = size;
	put_extended(70001, BEGIN + 2, 4);
	assert_int_equal(verify(0), 1 + LEFT_BAD_RECORD);
}

static void times_must_not_fall(void **state)
{
	put_extended(1, BEGIN - 1, 4);
	assert_int_equal(verify(0), 1 + LEFT_BAD_TIME);
	start(state);
	put_extended(1, BEGIN + 10, 4);
	put_extended(1, BEGIN + 9, 4);
	assert_int_equal(verify(0), 1 + LEFT_BAD_TIME);
	start(state);
	put_extended(1, BEGIN + 10, 4);
	put_compact(1, (uint32_t)BEGIN + 9, 4); /* would be 2^32 later */
	assert_int_equal(verify(0), 1 + LEFT_BAD_TIME);
	start(state);
	put_extended(1, packet.end_ts + 1, 4);
	assert_int_equal(verify(0), 1 + LEFT_BAD_TIME);
	/* A current one ends now. */
	packet.current = true;
	packet.end_ts = 0;
	assert_int_equal(verify(BEGIN + 0x10000), 1 + LEFT_BAD_TIME);
	assert_int_equal(verify(BEGIN + 0x10001), 0);
}

/* --- listing and copying --------------------------------------------------------------------------- */

static const struct pool_geometry geometry = {
	.region_shift = 20, .n_streams = 4, .n_classes = 1, .class_shift = { 12 }, .n_subs = { 16 }
};

static void set(struct ring_pool *p, uint32_t idx, uint64_t state, uint64_t close, uint64_t begin)
{
	ring_entry(p, idx)->state = state;
	ring_entry(p, idx)->close = close;
	ring_entry(p, idx)->begin_ts = begin;
}

static void lists_what_the_cut_covers(void **state)
{
	uint32_t n, by_idx[16];
	uint64_t cuts[4] = { 0 };
	struct ring_packet k[16];
	struct ring_pool p;
	uint8_t buf[POOL_PAGE];

	assert_int_equal(ring_pool_init(&p, &geometry, 1), 0);
	for (uint32_t i = 0; i < 16; i++)
		ring_grant(&p, i, 2);
	cuts[1] = pos_make(GEN, 0, geometry_sub_off(&geometry, 4) + 500);
	set(&p, 0, state_make(SUB_ACTIVE, 2, 1, 0, GEN - 1), pair_make(GEN - 1, 900), 10);
	set(&p, 1, state_make(SUB_PINNED, 2, 1, 0, GEN - 2), pair_make(GEN - 2, 800), 9);
	set(&p, 2, state_make(SUB_ACTIVE, 2, 1, 0, GEN - 3), pair_make(GEN - 7, 800), 8);
	set(&p, 3, state_make(SUB_ACTIVE, 2, 1, 0, GEN + 1), 0, 12); /* after the cut */
	set(&p, 4, state_make(SUB_ACTIVE, 2, 1, 0, GEN), 0, 11);     /* current */
	set(&p, 5, state_make(SUB_ACTIVE, 3, 1, 0, GEN - 1), 0, 10); /* another channel */
	set(&p, 6, state_make(SUB_ACTIVE, 2, 9, 0, GEN - 1), 0, 10); /* no such stream */
	set(&p, 7, state_make(SUB_ACTIVE, 2, 1, 0, GEN - 4), pair_make(GEN - 4, 4097), 7);
	n = ring_list(&p, 2, cuts, k);
	assert_int_equal(n, 5);
	memset(by_idx, 0xff, sizeof(by_idx));
	for (uint32_t i = 0; i < n; i++)
		by_idx[k[i].idx] = i;
	assert_int_equal(k[by_idx[0]].size, 900);
	assert_int_equal(k[by_idx[0]].begin_ts, 10);
	assert_int_equal(k[by_idx[1]].size, 800);
	assert_int_equal(k[by_idx[2]].size, 0); /* size of an earlier life */
	assert_int_equal(k[by_idx[4]].size, 500);
	assert_true(k[by_idx[4]].current);
	assert_int_equal(k[by_idx[7]].size, 0); /* larger than it can be */

	assert_int_equal(ring_copy(&p, &k[by_idx[0]], buf), 0);
	/* Pinned meanwhile by another thread of the daemon: the same life. */
	ring_entry(&p, 0)->state = state_make(SUB_PINNED, 2, 1, 1, GEN - 1);
	assert_int_equal(ring_copy(&p, &k[by_idx[0]], buf), 0);
	ring_entry(&p, 0)->state = state_make(SUB_ACTIVE, 2, 1, 2, GEN + 2);
	assert_int_equal(ring_copy(&p, &k[by_idx[0]], buf), RING_BUSY);
	ring_entry(&p, 0)->state = state_make(SUB_FREE, 2, 1, 3, GEN - 1);
	assert_int_equal(ring_copy(&p, &k[by_idx[0]], buf), RING_BUSY);
	ring_pool_fini(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(good_packet_is_believed, start),
		cmocka_unit_test_setup(bad_headers_are_not, start),
		cmocka_unit_test_setup(records_must_tile, start),
		cmocka_unit_test_setup(times_must_not_fall, start),
		cmocka_unit_test(lists_what_the_cut_covers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
