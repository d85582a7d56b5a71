/* SPDX-License-Identifier: MIT */
/* The daemon's transitions: each from the states that it takes, and from no other; and what the
 * memory of a pool costs at each step. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ring/ring.h"

#define SUB 5u /* the one that most tests use */

static const struct pool_geometry geometry = { .region_shift = 26,
	.n_streams = 4,
	.n_classes = 2,
	.class_shift = { 12, 16 },
	.n_subs = { 1024, 1024 } };

static int setup(void **state)
{
	static struct ring_pool p;

	*state = &p;
	return ring_pool_init(&p, &geometry, 42);
}

static int teardown(void **state)
{
	ring_pool_fini(*state);
	return 0;
}

static uint64_t state_of(const struct ring_pool *p, uint32_t idx)
{
	return ring_entry(p, idx)->state;
}

/* As if a writer had filled SUB in gen and gone on, or is still in it. */
static uint64_t make_active(struct ring_pool *p, uint32_t gen, uint32_t stream_gen, bool current)
{
	uint64_t s = state_make(SUB_ACTIVE, 0, 1, 9, gen);

	assert_int_equal(ring_grant(p, SUB, 0), 0);
	ring_entry(p, SUB)->state = s;
	ring_line(p, 0, 1)->pos = pos_make(
		stream_gen, 0, current ? geometry_sub_off(&p->geometry, SUB) + SUB_HEADER_SIZE : 0);
	return s;
}

static void new_pool_costs_one_page(void **state)
{
	struct ring_pool *p = *state;

	assert_int_equal(ring_pool_bytes(p), POOL_PAGE);
	for (uint32_t i = 0; i < 8; i++)
		assert_int_equal(ring_promise(p, i, 0), 0);
	assert_int_equal(ring_pool_bytes(p), POOL_PAGE);
	/* Asking about streams that were never used costs nothing either. */
	for (uint32_t ch = 0; ch < POOL_N_CHANNELS; ch++) {
		uint64_t lost[N_LOST_REASONS] = { 0 };

		for (uint32_t i = 0; i < 4; i++) {
			assert_int_equal(ring_stream_records(p, ch, i, NULL), 0);
			ring_stream_lost(p, ch, i, lost);
		}
		assert_int_equal(ring_line_exists(p, ch, 0), ch == 0);
	}
	assert_int_equal(ring_pool_bytes(p), POOL_PAGE);
	assert_int_equal(ring_grant(p, 20, 3), 0);
	assert_int_equal(ring_pool_bytes(p), 2 * POOL_PAGE);
	assert_int_equal(ring_grant(p, 1024, 3), 0);
	/* The entry of a large one lies in another page of the table. */
	assert_int_equal(ring_pool_bytes(p), 3 * POOL_PAGE + 65536);
	assert_int_equal(ring_revoke(p, 1024), 0);
	assert_int_equal(ring_punch(p, 1024), 0);
	assert_int_equal(ring_pool_bytes(p), 3 * POOL_PAGE);
}

static void pool_is_sealed(void **state)
{
	struct ring_pool *p = *state;

	assert_int_equal(ftruncate(p->fd, 0), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(ftruncate(p->fd, (off_t)geometry_span(&geometry) + 1), -1);
	assert_int_equal(fcntl(p->fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
	assert_true(fcntl(p->fd, F_GETFD) & FD_CLOEXEC);
}

static void grants_take_absent_ones_only(void **state)
{
	struct ring_pool *p = *state;

	assert_int_equal(ring_grant(p, SUB, 7), 0);
	assert_int_equal(state_kind(state_of(p, SUB)), SUB_FREE);
	assert_int_equal(state_ch(state_of(p, SUB)), 7);
	assert_int_equal(ring_header(p)->channel[7].freed, 1);
	assert_int_equal(ring_header(p)->n_used[0], SUB + 1);
	assert_int_equal(ring_grant(p, SUB, 7), RING_BUSY);
	assert_int_equal(ring_promise(p, SUB, 7), RING_BUSY);
	assert_int_equal(ring_punch(p, SUB), RING_BUSY);
	assert_int_equal(ring_revoke(p, SUB), 0);
	assert_int_equal(state_kind(state_of(p, SUB)), SUB_ABSENT);
	assert_int_equal(ring_revoke(p, SUB), RING_BUSY);
	assert_int_equal(ring_promise(p, SUB, 7), 0);
	assert_int_equal(state_kind(state_of(p, SUB)), SUB_PROMISED);
	assert_int_equal(ring_header(p)->channel[7].freed, 2);
	assert_int_equal(ring_grant(p, SUB, 7), RING_BUSY);
	assert_int_equal(ring_revoke(p, SUB), 0);
	assert_int_equal(ring_grant(p, 2048, 0), -EINVAL);
	assert_int_equal(ring_grant(p, 0, POOL_N_CHANNELS), -EINVAL);
	assert_int_equal(ring_revoke(p, 2048), RING_BUSY);
	assert_int_equal(ring_punch(p, 2048), -EINVAL);
}

static void retired_can_be_pinned_and_consumed(void **state)
{
	struct ring_pool *p = *state;
	uint64_t s = make_active(p, 3, 4, false), pinned, again;

	assert_int_equal(ring_classify(p, SUB, s, NULL), RING_RETIRED);
	assert_int_equal(ring_revoke(p, SUB), RING_BUSY);
	assert_int_equal(ring_pin(p, SUB, s, &pinned), 0);
	assert_int_equal(state_of(p, SUB), pinned);
	assert_int_equal(state_kind(pinned), SUB_PINNED);
	assert_int_equal(state_gen(pinned), 3);
	assert_int_equal(state_cpu(pinned), 1);
	assert_int_equal(ring_pin(p, SUB, s, &again), RING_BUSY);
	assert_int_equal(ring_reclaim(p, SUB, s), RING_BUSY);
	assert_int_equal(ring_reclaim(p, SUB, pinned), RING_BUSY);
	assert_int_equal(ring_unpin(p, SUB, pinned), 0);
	assert_int_equal(ring_unpin(p, SUB, pinned), RING_BUSY);
	s = state_of(p, SUB);
	assert_int_equal(ring_classify(p, SUB, s, NULL), RING_RETIRED);
	assert_int_equal(ring_pin(p, SUB, s, &pinned), 0);
	ring_entry(p, SUB)->close = pair_make(3, 100);
	assert_int_equal(ring_consume(p, SUB, pinned), 0);
	assert_int_equal(state_kind(state_of(p, SUB)), SUB_FREE);
	assert_int_equal(ring_entry(p, SUB)->close, 0);
	assert_int_equal(ring_consume(p, SUB, pinned), RING_BUSY);
}

static void current_and_orphan_are_left_alone(void **state)
{
	struct ring_pool *p = *state;
	uint64_t s = make_active(p, 3, 3, true), pinned;

	assert_int_equal(ring_classify(p, SUB, s, NULL), RING_CURRENT);
	assert_int_equal(ring_pin(p, SUB, s, &pinned), RING_BUSY);
	assert_int_equal(ring_reclaim(p, SUB, s), RING_BUSY);
	ring_line(p, 0, 1)->pos = pos_make(2, 0, 0);
	assert_int_equal(ring_classify(p, SUB, s, NULL), RING_ORPHAN);
	assert_int_equal(ring_pin(p, SUB, s, &pinned), RING_BUSY);
	assert_int_equal(ring_reclaim(p, SUB, s), RING_BUSY);
	/* A word that names a stream that there is not. */
	s = state_make(SUB_ACTIVE, 31, 4, 0, 3);
	ring_entry(p, SUB)->state = s;
	assert_int_equal(ring_classify(p, SUB, s, NULL), RING_OTHER);
	assert_int_equal(ring_reclaim(p, SUB, s), RING_BUSY);
}

static void reclaim_takes_the_word_it_was_given(void **state)
{
	struct ring_pool *p = *state;
	uint64_t s = make_active(p, 3, 4, false);

	ring_entry(p, SUB)->state = state_make(SUB_ACTIVE, 0, 1, 10, 5);
	ring_line(p, 0, 1)->pos = pos_make(6, 0, 0);
	assert_int_equal(ring_reclaim(p, SUB, s), RING_BUSY);
	assert_int_equal(ring_reclaim(p, SUB, state_of(p, SUB)), 0);
	assert_int_equal(state_kind(state_of(p, SUB)), SUB_ABSENT);
	assert_int_equal(ring_punch(p, SUB), 0);
}

static void next_daemon_finds_the_pool(void **state)
{
	struct ring_pool *p = *state, q;
	int fd;

	ring_grant(p, SUB, 0);
	ring_line(p, 0, 2)->owner = UINT32_MAX; /* died while it retired that one by lock */
	ring_line(p, 0, 3)->owner = 1;
	assert_int_equal(ring_pool_open(&q, dup(p->fd), &geometry, 42), 0);
	assert_int_equal(q.n_used[0], SUB + 1);
	assert_int_equal(ring_line(p, 0, 2)->owner, 0);
	assert_int_equal(ring_line(p, 0, 3)->owner, 1);
	assert_int_equal(ring_revoke(&q, SUB), 0);
	ring_pool_fini(&q);
	ring_header(p)->n_used[1] = UINT32_MAX;
	assert_int_equal(ring_pool_open(&q, dup(p->fd), &geometry, 42), 0);
	assert_int_equal(q.n_used[1], 1024);
	ring_pool_fini(&q);
	fd = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(fd, (off_t)geometry_span(&geometry)), 0);
	assert_int_equal(ring_pool_open(&q, fd, &geometry, 42), -EINVAL);
}

static void bad_geometry_is_refused(void **state)
{
	struct pool_geometry g = geometry;
	struct ring_pool q;

	g.class_shift[1] = 40;
	assert_int_equal(ring_pool_init(&q, &g, 1), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(new_pool_costs_one_page, setup, teardown),
		cmocka_unit_test_setup_teardown(pool_is_sealed, setup, teardown),
		cmocka_unit_test_setup_teardown(grants_take_absent_ones_only, setup, teardown),
		cmocka_unit_test_setup_teardown(
			retired_can_be_pinned_and_consumed, setup, teardown),
		cmocka_unit_test_setup_teardown(current_and_orphan_are_left_alone, setup, teardown),
		cmocka_unit_test_setup_teardown(
			reclaim_takes_the_word_it_was_given, setup, teardown),
		cmocka_unit_test_setup_teardown(next_daemon_finds_the_pool, setup, teardown),
		cmocka_unit_test(bad_geometry_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
