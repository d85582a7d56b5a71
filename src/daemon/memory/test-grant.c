/* SPDX-License-Identifier: MIT */
#include "daemon/test-device.h"

#define MIB	(UINT64_C(1) << 20)
#define LONG_NS (UINT64_C(60) * 1000000000)

/* The promise: what a session has never exceeds its budget, by the books and by the kernel. */
static void check_budget(struct device *v, const struct session *s)
{
	uint64_t bytes = store_used(s->store);
	struct process *p;

	assert_true(session_used(s) <= s->budget);
	list_for_each(p, &v->d.processes, struct process, link)
		if (p->pool)
			bytes += ring_pool_bytes(&p->pool->ring) - p->pool->base_bytes;
	assert_true(bytes <= s->budget);
}

static uint64_t charged(const struct program *g, const struct session *s)
{
	return g->process->pool->channel[s->channel].charged;
}

static void newcomer_is_promised_memory_that_costs_nothing(void **state)
{
	struct device *v = device_new();
	struct session *s = device_session(v, "a", 8 * MIB, LONG_NS);
	struct program g = program_new(v, 1000, RING_RSEQ);

	assert_true(charged(&g, s) >= daemon_minimum(&v->d));
	assert_int_equal(ring_pool_bytes(&g.process->pool->ring), POOL_PAGE);
	assert_int_equal(process_used(g.process, s), 0);
	/* Its first events need no daemon, and none is lost. */
	program_emit(&g, s, 1000);
	assert_int_equal(process_committed(g.process, s), 1000);
	check_budget(v, s);
	program_kill(&g);
	device_free(v);
}

static void loud_one_grows_to_what_there_is(void **state)
{
	struct device *v = device_new();
	struct session *s = device_session(v, "a", 8 * MIB, LONG_NS);
	struct program g = program_new(v, 1000, RING_RSEQ);
	struct grant_result r;

	for (int i = 0; i < 50; i++) {
		program_emit(&g, s, 100000);
		r = device_tick(v);
		assert_true(r.moved && r.switched);
		check_budget(v, s);
	}
	assert_true(charged(&g, s) >= s->budget - grant_reserve(&v->d) - 2 * GRANT_LARGE);
	/* The reserve is not for the loud. */
	assert_true(charged(&g, s) <= s->budget - grant_reserve(&v->d));
	assert_false(r.hungry);
	program_kill(&g);
	device_free(v);
}

/* Records of the process that are still in its pool, if none is missing in between. */
static uint64_t records_kept(const struct program *g, const struct session *s)
{
	const struct ring_pool *p = &g->process->pool->ring;
	struct ring_packet *list = calloc(p->n_subs, sizeof(*list));
	uint64_t *cuts = calloc(g->process->n_streams, sizeof(*cuts));
	uint64_t oldest = UINT64_MAX, n = 0;
	uint32_t count;

	for (uint32_t i = 0; i < g->process->n_streams; i++)
		n += ring_stream_records(p, s->channel, i, &cuts[i]);
	count = ring_list(p, s->channel, cuts, list);
	for (uint32_t i = 0; i < count; i++) {
		struct sub_header h;

		assert_int_equal(
			pread(p->fd, &h, sizeof(h), geometry_sub_off(&p->geometry, list[i].idx)),
			sizeof(h));
		if (h.n_before < oldest)
			oldest = h.n_before;
	}
	free(list);
	free(cuts);
	return n - oldest;
}

static void quiet_one_keeps_all_beside_loud_ones(void **state)
{
	struct device *v = device_new();
	struct session *s = device_session(v, "a", 2 * MIB, LONG_NS);
	struct program loud = program_new(v, 1000, RING_LOCK);
	struct program louder = program_new(v, 1000, RING_LOCK);
	struct program quiet = program_new(v, 1001, RING_LOCK);
	uint64_t total = 0;

	for (int i = 0; i < 100; i++) {
		program_emit(&quiet, s, 50);
		total += 50;
		program_emit(&loud, s, 20000);
		program_emit(&louder, s, 40000);
		device_tick(v);
		device_tick(v); /* what the first took is there in the second */
		check_budget(v, s);
	}
	assert_int_equal(records_kept(&quiet, s), total);
	/* The loud ones share alike, whatever they ask for. */
	assert_in_range(charged(&loud, s), charged(&louder, s) - 3 * GRANT_LARGE,
		charged(&louder, s) + 3 * GRANT_LARGE);
	assert_true(charged(&loud, s) > 8 * GRANT_LARGE);
	program_kill(&loud);
	program_kill(&louder);
	program_kill(&quiet);
	device_free(v);
}

static void newcomer_gets_its_minimum_when_all_is_taken(void **state)
{
	struct device *v = device_new();
	struct session *s = device_session(v, "a", 2 * MIB, LONG_NS);
	struct program loud = program_new(v, 1000, RING_LOCK), more[40];

	for (int i = 0; i < 50; i++) {
		program_emit(&loud, s, 50000);
		device_tick(v);
	}
	/* More of them at once than the reserve is made for. */
	for (int i = 0; i < 40; i++) {
		more[i] = program_new(v, 1001, RING_LOCK);
		assert_true(charged(&more[i], s) >= daemon_minimum(&v->d));
		program_emit(&more[i], s, 100);
		assert_int_equal(process_committed(more[i].process, s), 100);
		check_budget(v, s);
	}
	for (int i = 0; i < 40; i++)
		program_kill(&more[i]);
	program_kill(&loud);
	device_free(v);
}

static void data_go_when_they_are_older_than_the_window(void **state)
{
	struct device *v = device_new();
	struct session *s = device_session(v, "a", 8 * MIB, 20 * UINT64_C(1000000));
	struct program g = program_new(v, 1000, RING_RSEQ);
	struct grant_result r;

	program_emit(&g, s, 3000);
	r = device_tick(v);
	assert_true(r.next_ns <= 20 * UINT64_C(1000000));
	assert_true(process_used(g.process, s) >= 3000 * 18);
	usleep(30000);
	/* Finished ones go, the current one is ended and goes, all is punched; then nothing is left to do. */
	for (int i = 0; i < 10; i++)
		r = device_tick(v);
	assert_int_equal(process_tally(g.process, s)->aged, 3000);
	assert_int_equal(process_used(g.process, s), 0);
	/* What is left is the header, and a page of the table if it had many. */
	assert_true(ring_pool_bytes(&g.process->pool->ring) <= 2 * POOL_PAGE);
	assert_false(r.moved || r.switched || r.hungry || r.pending);
	assert_true(r.next_ns == UINT64_MAX);
	/* And it goes on. */
	program_emit(&g, s, 10);
	assert_int_equal(process_committed(g.process, s), 3010);
	program_kill(&g);
	device_free(v);
}

static void dead_ones_data_move_and_their_pool_goes(void **state)
{
	struct device *v = device_new();
	struct session *s = device_session(v, "a", 8 * MIB, LONG_NS);
	struct program g = program_new(v, 1000, RING_RSEQ);
	struct process *p = g.process;

	program_emit(&g, s, 5000);
	device_tick(v);
	program_kill(&g);
	while (p->pool || !p->end_known)
		uv_run(&v->loop, UV_RUN_ONCE);
	assert_false(p->alive);
	assert_true(WIFSIGNALED(p->end_status) && WTERMSIG(p->end_status) == SIGKILL);
	assert_int_equal(s->charged, 0);
	assert_true(store_used(s->store) >= 5000 * 18);
	assert_true(store_used(s->store) <= 5000 * 18 + 16384);
	assert_int_equal(process_committed(p, s), 5000);
	assert_int_equal(account_used(&v->d.accounts, 1000, CHARGE_PROCESSES), 0);
	session_destroy(s);
	device_tick(v);
	assert_true(list_empty(&v->d.processes)); /* nothing is left to tell of it */
	device_free(v);
}

static void pid_has_few_pools(void **state)
{
	struct device *v = device_new();
	struct session *s = device_session(v, "a", 8 * MIB, LONG_NS);
	struct program g = program_new(v, 1000, RING_LOCK);
	struct wire_hello hello = { .room = UINT64_MAX, .mode = RING_LOCK, .name = "again" };
	struct process_identity id = { .uid = 1000, .pid = g.child };
	struct process *p;

	program_emit(&g, s, 100);
	for (uint32_t i = 0; i < PROCESS_POOLS_MAX; i++) {
		assert_true(g.process->alive);
		id.pidfd = (int)syscall(SYS_pidfd_open, g.child, 0);
		assert_int_equal(process_new(&v->d, &id, &hello, "", 0, &p), 0);
	}
	/* The first went to the dead, with what it had. */
	assert_false(g.process->alive);
	while (g.process->pool)
		uv_run(&v->loop, UV_RUN_NOWAIT);
	assert_true(store_used(s->store) >= 100 * 18);
	assert_int_equal(account_used(&v->d.accounts, 1000, CHARGE_PROCESSES), PROCESS_POOLS_MAX);
	program_kill(&g);
	device_free(v);
}

static void pool_of_a_snapshot_stays_where_it_is(void **state)
{
	struct device *v = device_new();
	struct session *s = device_session(v, "a", 8 * MIB, LONG_NS);
	struct program g = program_new(v, 1000, RING_LOCK);
	struct process *p = g.process;

	program_emit(&g, s, 5000);
	assert_ptr_equal(process_hold_pool(p), p->pool);
	program_kill(&g);
	while (p->alive)
		uv_run(&v->loop, UV_RUN_ONCE);
	for (int i = 0; i < 20; i++)
		uv_run(&v->loop, UV_RUN_NOWAIT);
	assert_non_null(p->pool);
	assert_int_equal(store_used(s->store), 0);
	process_release_pool(p);
	while (p->pool)
		uv_run(&v->loop, UV_RUN_ONCE);
	assert_true(store_used(s->store) > 0);
	device_free(v);
}

static void dead_share_with_the_living(void **state)
{
	struct device *v = device_new();
	struct session *s = device_session(v, "a", 2 * MIB, LONG_NS);
	struct program living = program_new(v, 1000, RING_LOCK), g;

	for (int k = 0; k < 6; k++) {
		g = program_new(v, 1001, RING_LOCK);
		for (int i = 0; i < 30; i++) {
			program_emit(&g, s, 20000);
			program_emit(&living, s, 20000);
			device_tick(v);
		}
		program_kill(&g);
		while (g.process->pool) {
			uv_run(&v->loop, UV_RUN_ONCE);
			check_budget(v, s);
		}
	}
	for (int i = 0; i < 30; i++) {
		program_emit(&living, s, 20000);
		device_tick(v);
		check_budget(v, s);
	}
	assert_true(store_used(s->store) <= s->budget / 2);
	assert_true(store_used(s->store) > s->budget / 4);
	assert_true(charged(&living, s) > s->budget / 4);
	program_kill(&living);
	device_free(v);
}

/* A program that writes rubbish over all that it can reach, and touches what it was not given. */
static void hostile_program_keeps_nothing(void **state)
{
	struct device *v = device_new();
	struct session *s = device_session(v, "a", 4 * MIB, LONG_NS);
	struct program bad = program_new(v, 1000, RING_LOCK),
		       good = program_new(v, 1001, RING_LOCK);
	const struct pool_geometry *g = &bad.process->pool->ring.geometry;
	uint64_t total = 0, allowed;
	unsigned seed = 1;

	for (int i = 0; i < 200; i++) {
		program_emit(&good, s, 20);
		total += 20;
		program_emit(&bad, s, 1000);
		for (int k = 0; k < 50; k++) {
			uint64_t at = (uint64_t)rand_r(&seed) % (POOL_PAGE * 2);
			uint64_t value = (uint64_t)rand_r(&seed) << 33 ^ (uint64_t)rand_r(&seed);

			memcpy((char *)bad.map + at, &value, sizeof(value));
		}
		for (int k = 0; k < 20; k++)
			((char *)bad.map)[((uint64_t)1 << g->region_shift) +
					  (uint64_t)rand_r(&seed) %
						  ((uint64_t)2 << g->region_shift)] = 1;
		/* Its words are rubbish, so it may be let in anew without an error of ours. */
		ring_writer_init(&bad.writer, bad.map, bad.span, NULL, RING_LOCK, v->d.clock.kind);
		device_tick(v);
		assert_true(session_used(s) <= s->budget);
	}
	pool_audit(bad.process->pool);
	allowed = charged(&bad, s) + bad.process->pool->base_bytes;
	assert_true(ring_pool_bytes(&bad.process->pool->ring) <= allowed);
	check_budget(v, s);
	assert_int_equal(records_kept(&good, s), total);
	program_kill(&bad);
	while (bad.process->pool)
		uv_run(&v->loop, UV_RUN_ONCE);
	check_budget(v, s);
	program_kill(&good);
	device_free(v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(newcomer_is_promised_memory_that_costs_nothing),
		cmocka_unit_test(loud_one_grows_to_what_there_is),
		cmocka_unit_test(quiet_one_keeps_all_beside_loud_ones),
		cmocka_unit_test(newcomer_gets_its_minimum_when_all_is_taken),
		cmocka_unit_test(data_go_when_they_are_older_than_the_window),
		cmocka_unit_test(dead_ones_data_move_and_their_pool_goes),
		cmocka_unit_test(pid_has_few_pools),
		cmocka_unit_test(pool_of_a_snapshot_stays_where_it_is),
		cmocka_unit_test(dead_share_with_the_living),
		cmocka_unit_test(hostile_program_keeps_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
