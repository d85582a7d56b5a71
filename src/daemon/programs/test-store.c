/* SPDX-License-Identifier: MIT */

/* The store of the dead: a real pool, written by the ring's own writer, is moved packet by packet. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/daemon.h"
#include "daemon/memory/pool.h"
#include "daemon/programs/process.h"
#include "daemon/programs/store.h"
#include "daemon/session.h"
#include "varve/abi.h"

#define N_SUBS	 16u
#define N_EVENTS 1000u
#define BODY	 8u /* vtid, and one u32 */

static struct wire_field field = { .type = VARVE_T_U32, .name = "n" };
static struct daemon d;
static struct session s;

struct dead {
	struct process p;
	struct pool pool;
	struct process_channel tally;
	struct ring_packet list[N_SUBS];
	uint32_t n;
	uint64_t cuts[4];
};

static uint32_t event_id(void)
{
	struct wire_event *e = calloc(1, sizeof(*e));
	const struct registry_event *entry;

	assert_non_null(e);
	*e = (struct wire_event){ VARVE_INFO, 1, "test", "event", &field };
	assert_int_equal(registry_add(d.registry, e, &entry), 0);
	return entry->id;
}

/* A process of this uid that recorded N_EVENTS and died. */
static void dead_make(struct dead *x, uid_t uid, uint32_t id)
{
	const struct pool_geometry g = { .region_shift = 20,
		.n_streams = 4,
		.n_classes = 1,
		.class_shift = { 12 },
		.n_subs = { N_SUBS } };
	static _Alignas(4096) struct control_page control;
	uint8_t body[BODY + RECORD_SLACK] = { 0 };
	struct ring_writer w;
	void *map;

	memset(x, 0, sizeof(*x));
	assert_int_equal(ring_pool_init(&x->pool.ring, &g, 1 + uid), 0);
	for (uint32_t i = 0; i < N_SUBS; i++)
		assert_int_equal(ring_grant(&x->pool.ring, i, 0), 0);
	map = mmap(NULL, geometry_span(&g), PROT_READ | PROT_WRITE, MAP_SHARED, x->pool.ring.fd, 0);
	assert_true(map != MAP_FAILED);
	assert_int_equal(ring_writer_init(&w, map, geometry_span(&g), &control, RING_LOCK,
				 TRACE_CLOCK_MONOTONIC),
		0);
	for (uint32_t i = 0; i < N_EVENTS; i++) {
		memcpy(body + 4, &i, sizeof(i));
		assert_int_equal(ring_emit(&w, 0, id, body, BODY), RING_OK);
	}
	munmap(map, geometry_span(&g));
	x->tally.serial = s.serial;
	x->p = (struct process){ .daemon = &d, .uid = uid, .n_streams = 4, .pool = &x->pool };
	x->p.channel[0] = &x->tally;
	for (uint32_t i = 0; i < 4; i++)
		ring_stream_records(&x->pool.ring, 0, i, &x->cuts[i]);
	x->n = ring_list(&x->pool.ring, 0, x->cuts, x->list);
	assert_true(x->n >= 4);
}

static void take_all(struct dead *x)
{
	for (uint32_t i = 0; i < x->n; i++)
		assert_int_equal(store_take(s.store, &x->p, &x->list[i]), 0);
}

static void dead_end(struct dead *x)
{
	assert_int_equal(x->p.refs, 0);
	ring_pool_fini(&x->pool.ring);
}

struct seen {
	uint32_t n_packets, n_records, n_refused;
	uint64_t bytes;
};

static void see(void *arg, const struct store_packet *k)
{
	struct seen *x = arg;

	x->n_packets++;
	x->n_records += k->n;
	x->n_refused += k->refused != 0;
	x->bytes += k->size;
	assert_true(k->header.begin_ts <= k->last_ts && k->last_ts <= k->end_ts);
}

static int setup(void **state)
{
	assert_int_equal(clock_init(&d.clock, TRACE_CLOCK_MONOTONIC), 0);
	d.registry = registry_new(1);
	s = (struct session){ .daemon = &d, .serial = 7, .channel = 0 };
	s.store = store_new(&s);
	assert_non_null(d.registry);
	assert_non_null(s.store);
	return 0;
}

static int teardown(void **state)
{
	store_free(s.store);
	registry_free(d.registry);
	return 0;
}

static void keeps_all_and_what_it_costs(void **state)
{
	struct seen seen = { 0 };
	struct dead x;
	uint64_t used;

	dead_make(&x, 1000, event_id());
	take_all(&x);
	store_visit(s.store, see, &seen);
	used = store_used(s.store);
	assert_int_equal(seen.n_records, N_EVENTS);
	assert_int_equal(seen.n_packets, store_n_packets(s.store));
	assert_int_equal(
		seen.bytes, seen.n_packets * SUB_HEADER_SIZE + N_EVENTS * (RECORD_COMPACT + BODY));
	assert_true(used > seen.bytes && used < seen.bytes + 4096);
	assert_int_equal(x.tally.store_bytes, used);
	assert_int_equal(x.tally.store_packets, seen.n_packets);
	assert_int_equal(x.p.refs, seen.n_packets);

	/* Dropped one by one, the oldest first; all comes back. */
	uint64_t before = store_oldest(s.store), back = 0;

	while (store_n_packets(s.store) > 0) {
		uint64_t got = store_drop_oldest(s.store, 1000, 1);

		assert_true(got > 0);
		assert_true(store_oldest(s.store) >= before);
		before = store_oldest(s.store);
		back += got;
	}
	assert_int_equal(back, used);
	assert_int_equal(store_used(s.store), 0);
	assert_int_equal(x.tally.store_bytes, 0);
	assert_int_equal(x.tally.aged, 0);
	assert_true(store_oldest(s.store) == UINT64_MAX);
	dead_end(&x);
}

struct parties {
	uint32_t n;
	uid_t uid[2];
	uint64_t used[2];
};

static void party_visit(void *arg, uid_t uid, uint64_t used)
{
	struct parties *y = arg;

	assert_true(y->n < 2);
	y->uid[y->n] = uid;
	y->used[y->n++] = used;
}

static struct parties parties_of_store(void)
{
	struct parties y = { 0 };

	store_parties(s.store, party_visit, &y);
	return y;
}

static void parties_and_ages(void **state)
{
	uint32_t id = event_id();
	struct parties parties;
	struct dead a, b;
	uint64_t between;

	dead_make(&a, 1000, id);
	between = clock_now(&d.clock);
	dead_make(&b, 1001, id);
	take_all(&b);
	take_all(&a);
	parties = parties_of_store();
	assert_int_equal(parties.n, 2);
	assert_int_equal(parties.used[0] + parties.used[1], store_used(s.store));
	assert_int_equal(store_drop_oldest(s.store, 1002, 1), 0);

	/* A hold keeps all where it is. */
	store_hold(s.store);
	assert_int_equal(store_drop_older(s.store, UINT64_MAX), 0);
	assert_int_equal(store_drop_oldest(s.store, 1000, 1), 0);
	store_release(s.store);

	assert_int_equal(store_drop_older(s.store, between), parties.used[1]);
	assert_int_equal(a.tally.aged, N_EVENTS);
	assert_int_equal(b.tally.aged, 0);
	parties = parties_of_store();
	assert_int_equal(parties.n, 1);
	assert_int_equal(parties.uid[0], 1001);
	store_hold(s.store);
	store_clear(s.store); /* the session is destroyed while a snapshot reads */
	assert_true(store_used(s.store) > 0);
	store_release(s.store);
	assert_int_equal(store_used(s.store), 0);
	assert_int_equal(b.tally.aged, 0);
	dead_end(&a);
	dead_end(&b);
}

static void remembers_what_it_refused(void **state)
{
	struct seen seen = { 0 };
	struct dead x;

	dead_make(&x, 1000, event_id() + 1); /* of an event that nobody described */
	x.list[0].end_ts = UINT64_MAX;	     /* and the table lies */
	take_all(&x);
	store_visit(s.store, see, &seen);
	assert_int_equal(seen.n_refused, x.n);
	assert_int_equal(seen.n_records, 0);
	assert_int_equal(seen.bytes, x.n * SUB_HEADER_SIZE);
	assert_true(store_oldest(s.store) <= clock_now(&d.clock));
	store_clear(s.store);
	dead_end(&x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(keeps_all_and_what_it_costs, setup, teardown),
		cmocka_unit_test_setup_teardown(parties_and_ages, setup, teardown),
		cmocka_unit_test_setup_teardown(remembers_what_it_refused, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
