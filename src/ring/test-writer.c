/* SPDX-License-Identifier: MIT */
/* One writer and its pool, in both modes: what is recorded, what is lost, what it costs, and that
 * rubbish in the pool neither crashes nor stops it. Races have their own tests (race/). */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ring/section.h"

static const struct pool_geometry geometry = { .region_shift = 26,
	.n_streams = 4,
	.n_classes = 2,
	.class_shift = { 12, 16 },
	.n_subs = { 1024, 1024 } };

static struct ring_pool pool;
static struct ring_writer writer;
static enum ring_mode mode;
static enum trace_clock clock_used;
static void *base;

static uint64_t random_state = 88172645463325252ull;

static uint64_t random_next(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static int setup(enum ring_mode m)
{
	cpu_set_t set;

	mode = m;
	clock_used = m == RING_RSEQ ? TRACE_CLOCK_TSC : TRACE_CLOCK_MONOTONIC;
	CPU_ZERO(&set);
	CPU_SET(0, &set);
	sched_setaffinity(0, sizeof(set), &set);
	if (ring_pool_init(&pool, &geometry, 42) != 0)
		return -1;
	ring_header(&pool)->flight = UINT32_MAX;
	base = mmap(NULL, geometry_span(&geometry), PROT_READ | PROT_WRITE, MAP_SHARED, pool.fd, 0);
	if (base == MAP_FAILED)
		return -1;
	if (m == RING_RSEQ && ring_mode_choose(clock_used) != RING_RSEQ)
		return 0; /* the test itself says that it is skipped */
	return ring_writer_init(&writer, base, geometry_span(&geometry), NULL, mode, clock_used);
}

static int setup_rseq(void **state)
{
	return setup(RING_RSEQ);
}

static int setup_lock(void **state)
{
	return setup(RING_LOCK);
}

static int teardown(void **state)
{
	munmap(base, geometry_span(&geometry));
	ring_pool_fini(&pool);
	return 0;
}

static void need_mode(void)
{
	if (mode == RING_RSEQ && ring_mode_choose(clock_used) != RING_RSEQ)
		skip();
}

static void grant(uint32_t first, uint32_t n, uint32_t ch)
{
	for (uint32_t i = first; i < first + n; i++)
		assert_int_equal(ring_grant(&pool, i, ch), 0);
}

static uint64_t lost_of(uint32_t ch, enum lost_reason why)
{
	uint64_t sum[N_LOST_REASONS] = { 0 };

	for (uint32_t i = 0; i < geometry.n_streams; i++)
		ring_stream_lost(&pool, ch, i, sum);
	return sum[why];
}

/* --- reading back ---------------------------------------------------------------------------------- */

/* Bodies of these tests: u16 length of the body (at least 2), then a pattern of id and length. */
static uint32_t body_len(void *arg, uint32_t id, const uint8_t *body, uint32_t avail)
{
	uint16_t len;

	if (avail < 2)
		return 0;
	memcpy(&len, body, 2);
	return len <= avail ? len : 0;
}

static void make_body(uint8_t *body, uint32_t id, uint32_t len)
{
	memcpy(body, &(uint16_t){ (uint16_t)len }, 2);
	for (uint32_t i = 2; i < len; i++)
		body[i] = (uint8_t)(id * 31 + len * 7 + i);
	memset(body + len, 0xee, RECORD_SLACK);
}

struct seen {
	uint32_t n, last_id, n_extended;
	uint64_t sum_len;
};

static void on_record(void *arg, const struct ring_record *r)
{
	uint8_t expected[POOL_PAGE + RECORD_SLACK];
	struct seen *s = arg;

	make_body(expected, r->id, r->body_len);
	assert_memory_equal(r->body, expected, r->body_len);
	s->n++;
	s->last_id = r->id;
	s->sum_len += r->body_len;
}

static struct seen read_all(uint32_t ch)
{
	static struct ring_packet list[2048];
	static uint8_t buf[1 << 16];
	struct seen seen = { 0 };
	uint64_t cuts[4], last_ts;
	uint32_t n, n_records;

	for (uint32_t i = 0; i < 4; i++)
		ring_stream_records(&pool, ch, i, &cuts[i]);
	n = ring_list(&pool, ch, cuts, list);
	for (uint32_t i = 0; i < n; i++) {
		assert_int_equal(ring_copy(&pool, &list[i], buf), 0);
		assert_int_equal(ring_verify(&list[i], buf, ring_clock(clock_used), body_len,
					 on_record, &seen, &n_records, &last_ts),
			0);
	}
	return seen;
}

static enum ring_result emit(uint32_t ch, uint32_t id, uint32_t len)
{
	uint8_t body[RECORD_BODY_MAX + 2 * RECORD_SLACK];

	make_body(body, id, len);
	return ring_emit(&writer, ch, id, body, len);
}

/* --- tests ---------------------------------------------------------------------------------------- */

static void every_length_and_id_comes_back(void **state)
{
	static const uint32_t ids[] = { 1, 255, 65534, 65535, 65536, (1u << 20) - 1 };
	uint64_t n = 0, sum_len = 0;
	struct seen seen;

	need_mode();
	grant(1024, 300, 3);
	for (uint32_t len = 2; len <= RECORD_BODY_MAX; len++) {
		assert_int_equal(emit(3, ids[len % 6], len), RING_OK);
		n++;
		sum_len += len;
	}
	seen = read_all(3);
	assert_int_equal(seen.n, n);
	assert_int_equal(seen.sum_len, sum_len);
	assert_int_equal(emit(3, 1, 2), RING_OK);
	for (uint32_t i = 0; i < 4; i++)
		n -= ring_stream_records(&pool, 3, i, NULL);
	assert_int_equal((int64_t)n, -1);
}

static void too_big_is_lost_and_counted(void **state)
{
	static uint8_t body[2 * POOL_PAGE];

	need_mode();
	grant(0, 4, 0);
	assert_int_equal(ring_emit(&writer, 0, 1, body, RECORD_BODY_MAX + 1), RING_LOST);
	assert_int_equal(ring_emit(&writer, 0, 1, body, UINT32_MAX), RING_LOST);
	assert_int_equal(lost_of(0, LOST_TOOBIG), 2);
	assert_int_equal(read_all(0).n, 0);
}

static void first_event_uses_a_promise(void **state)
{
	need_mode();
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(ring_promise(&pool, i, 0), 0);
	assert_int_equal(ring_pool_bytes(&pool), POOL_PAGE);
	assert_int_equal(emit(0, 1, 8), RING_OK);
	/* The header's page and one sub-buffer; nothing else was touched. */
	assert_int_equal(ring_pool_bytes(&pool), 2 * POOL_PAGE);
	assert_int_equal(read_all(0).n, 1);
	/* All promises are used before the oldest is overwritten. */
	for (int i = 0; i < 4; i++)
		assert_int_equal(emit(0, 2, 3000), RING_OK);
	assert_int_equal(read_all(0).n, 5);
	assert_int_equal(ring_pool_bytes(&pool), 5 * POOL_PAGE);
	for (int i = 0; i < 100; i++)
		assert_int_equal(emit(0, 2, 3000), RING_OK);
	assert_int_equal(read_all(0).n, 4);
	assert_int_equal(ring_pool_bytes(&pool), 5 * POOL_PAGE);
	assert_int_equal(lost_of(0, LOST_NOBUF), 0);
}

/* Another channel costs its lines' page more. */
static void quiet_process_costs_four_pages(void **state)
{
	need_mode();
	for (uint32_t i = 0; i < 4; i++)
		ring_promise(&pool, i, 5);
	assert_int_equal(emit(5, 1, 8), RING_OK);
	assert_in_range(ring_pool_bytes(&pool), 3 * POOL_PAGE, 4 * POOL_PAGE);
}

static void refused_promise_is_a_loss(void **state)
{
	need_mode();
	ring_promise(&pool, 0, 0);
	/* Where there is nothing mapped, there is nothing to populate: as if memory were short. */
	munmap((char *)base + (1u << 26), 1u << 26);
	if (madvise((char *)base + (1u << 26), POOL_PAGE, 23 /* MADV_POPULATE_WRITE */) == 0) {
		print_message("this kernel (or qemu) only pretends to populate\n");
		skip();
	}
	for (int i = 0; i < 3; i++)
		assert_int_equal(emit(0, 1, 8), RING_LOST);
	assert_int_equal(lost_of(0, LOST_NOBUF), 3);
	assert_int_equal(state_kind(ring_entry(&pool, 0)->state), SUB_PROMISED);
	assert_true(writer.refused_at != 0);
}

static void without_flight_a_full_pool_loses(void **state)
{
	uint32_t n = 0;

	need_mode();
	ring_header(&pool)->flight = 0;
	assert_int_equal(emit(0, 1, 100), RING_LOST);
	grant(0, 3, 0);
	while (emit(0, 1, 100) == RING_OK)
		n++;
	assert_int_equal(n, 3 * ((4096 - 32 - 8) / 106));
	assert_int_equal(lost_of(0, LOST_NOBUF), 2);
	assert_int_equal(read_all(0).n, n);
	grant(3, 1, 0);
	assert_int_equal(emit(0, 1, 100), RING_OK);
	assert_int_equal(read_all(0).n, n + 1);
}

static void channels_do_not_mix(void **state)
{
	need_mode();
	grant(0, 2, 0);
	grant(2, 2, 30);
	assert_int_equal(emit(0, 1, 100), RING_OK);
	assert_int_equal(emit(30, 2, 100), RING_OK);
	for (int i = 0; i < 500; i++)
		assert_int_equal(emit(30, 2, 100), RING_OK);
	assert_int_equal(read_all(0).n, 1);
	assert_int_equal(read_all(0).last_id, 1);
	assert_int_equal(read_all(30).last_id, 2);
}

static void retired_stream_goes_on(void **state)
{
	uint64_t pos;

	need_mode();
	grant(0, 4, 0);
	assert_int_equal(emit(0, 1, 10), RING_OK);
	ring_stream_records(&pool, 0, 0, &pos);
	assert_int_equal(ring_retire(&pool, 0, 0, pos, mode, clock_used), 0);
	assert_int_equal(ring_retire(&pool, 0, 0, pos, mode, clock_used), RING_BUSY);
	assert_int_equal(ring_classify(&pool, 0, ring_entry(&pool, 0)->state, NULL), RING_RETIRED);
	assert_int_equal(read_all(0).n, 1);
	assert_int_equal(emit(0, 1, 10), RING_OK);
	assert_int_equal(read_all(0).n, 2);
	/* It moved since: not silent. */
	ring_stream_records(&pool, 0, 0, &pos);
	assert_int_equal(emit(0, 1, 10), RING_OK);
	assert_int_equal(ring_retire(&pool, 0, 0, pos, mode, clock_used), RING_BUSY);
	assert_int_equal(read_all(0).n, 3);
}

static void foreign_pools_are_refused(void **state)
{
	uint64_t span = geometry_span(&geometry);
	struct pool_header *h = ring_header(&pool), good = *h;
	struct ring_writer w;

#define REFUSED(change)                                                                            \
	do {                                                                                       \
		change;                                                                            \
		assert_int_equal(                                                                  \
			ring_writer_init(&w, base, span, NULL, RING_LOCK, TRACE_CLOCK_MONOTONIC),  \
			-EPROTO);                                                                  \
		memcpy((void *)h, &good, sizeof(good));                                            \
	} while (0)
	REFUSED(h->magic ^= 1);
	REFUSED(h->version = 2);
	REFUSED(h->features_required = 1);
	REFUSED(h->geometry.region_shift = 63);
	REFUSED(h->geometry.n_subs[1] = 1 << 20);
	REFUSED(h->geometry.n_classes = 3);
	span /= 2;
	REFUSED((void)0);
	span *= 2;
	assert_int_equal(
		ring_writer_init(&w, base, span, NULL, RING_LOCK, TRACE_CLOCK_MONOTONIC), 0);
	/* rseq needs a clock that its sections can read. */
	assert_int_equal(
		ring_writer_init(&w, base, span, NULL, RING_RSEQ, TRACE_CLOCK_MONOTONIC), -EPROTO);
#undef REFUSED
}

/* Code that is interrupted while it owns a stream, again and again: each level has its own. */
static void nested_handlers_find_a_stream(void **state)
{
	struct stream_line *lines = ring_line(&pool, 0, 0);
	uint32_t stream;

	grant(0, 16, 0);
	for (uint32_t level = 0; level < writer.n_streams; level++) {
		assert_int_equal(emit(0, 1 + level, 10), RING_OK);
		assert_non_null(ring_lock_acquire(lines, writer.n_streams, &stream));
		assert_int_equal(stream, level);
	}
	assert_int_equal(read_all(0).n, writer.n_streams);
	assert_int_equal(emit(0, 1, 10), RING_LOST);
	assert_int_equal(lost_of(0, LOST_RETRY), 1);
	for (uint32_t i = 0; i < writer.n_streams; i++)
		ring_lock_release(&lines[i]);
	assert_int_equal(emit(0, 1, 10), RING_OK);
}

static void losses_add_up(void **state)
{
	need_mode();
	ring_lost_add(&writer, 0, LOST_UNATTACHED, 5);
	ring_lost_add(&writer, 0, LOST_UNATTACHED, 7);
	ring_lost_add(&writer, 31, LOST_UNATTACHED, 7);
	ring_lost_add(&writer, 0, N_LOST_REASONS, 7);
	assert_int_equal(lost_of(0, LOST_UNATTACHED), 12);
}

/* --- waking the daemon ----------------------------------------------------------------------------- */

/* A child that sleeps as the daemon does; its exit code says whether somebody woke it. */
static pid_t start_sleeper(struct control_page *control)
{
	pid_t pid = fork();

	if (pid == 0) {
		struct timespec t = { .tv_nsec = 500000000 };
		long r = syscall(SYS_futex, &control->asleep, FUTEX_WAIT, 1, &t, NULL, 0);

		_exit(r == 0 ? 0 : 1);
	}
	return pid;
}

static bool was_woken(pid_t pid)
{
	int status;

	waitpid(pid, &status, 0);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Whether a process sleeps: all that the sleeper does after its start is to wait on the futex. */
static bool sleeps(pid_t pid)
{
	char path[64], text[256] = "", *state;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "r");
	if (!f)
		return false;
	if (!fgets(text, sizeof(text), f))
		text[0] = 0;
	fclose(f);
	state = strrchr(text, ')');
	return state && state[1] == ' ' && state[2] == 'S';
}

static pid_t start_sleeping(struct control_page *control)
{
	pid_t pid = start_sleeper(control);

	while (!sleeps(pid))
		sched_yield();
	return pid;
}

static void a_switch_wakes_the_daemon(void **state)
{
	int fd = memfd_create("control", MFD_CLOEXEC);
	struct control_page *rw, *ro;
	pid_t pid;

	need_mode();
	assert_int_equal(ftruncate(fd, POOL_PAGE), 0);
	rw = mmap(NULL, POOL_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ro = mmap(NULL, POOL_PAGE, PROT_READ, MAP_SHARED, fd, 0);
	writer.control = ro;
	grant(0, 4, 0);
	assert_int_equal(emit(0, 1, 3000), RING_OK);
	assert_true(writer.woken_at == 0); /* nobody sleeps */
	rw->asleep = 1;
	pid = start_sleeping(rw);
	assert_int_equal(emit(0, 1, 3000), RING_OK);
	assert_true(was_woken(pid));
	/* Once per second at most. */
	pid = start_sleeping(rw);
	for (int i = 0; i < 20; i++)
		assert_int_equal(emit(0, 1, 3000), RING_OK);
	assert_false(was_woken(pid));
	writer.woken_at -= 1000000000;
	pid = start_sleeping(rw);
	assert_int_equal(emit(0, 1, 3000), RING_OK);
	assert_true(was_woken(pid));
	munmap(rw, POOL_PAGE);
	munmap(ro, POOL_PAGE);
	close(fd);
}

/* --- rubbish --------------------------------------------------------------------------------------- */

/* Words that are wrong in interesting ways more often than plain random ones. */
static uint64_t rubbish(void)
{
	uint64_t r = random_next();

	switch (r % 8) {
	case 0:
		return 0;
	case 1:
		return UINT64_MAX;
	case 2:
		return pos_make((uint32_t)random_next() % 8, r >> 8 & 1,
			geometry_sub_off(&geometry, (r >> 16) % 2048) + (r >> 40) % 4096);
	case 3:
		return state_make(r >> 8 & 7, 0, (r >> 16) % 4, 1, (uint32_t)random_next() % 8);
	case 4:
		return pair_make((uint32_t)random_next() % 8, (r >> 16) % 2100);
	default:
		return random_next();
	}
}

static void reader_survives(void)
{
	static struct ring_packet list[2048];
	static uint8_t buf[1 << 16];
	uint64_t cuts[4], last_ts, pinned, s;
	uint32_t n, n_records;

	for (uint32_t i = 0; i < 4; i++)
		ring_stream_records(&pool, 0, i, &cuts[i]);
	n = ring_list(&pool, 0, cuts, list);
	assert_true(n <= 2048);
	for (uint32_t i = 0; i < n; i++) {
		assert_true(list[i].size <= geometry_sub_size(&geometry, list[i].idx));
		if (ring_copy(&pool, &list[i], buf) == 0)
			ring_verify(&list[i], buf, UINT64_MAX, body_len, NULL, NULL, &n_records,
				&last_ts);
		s = ring_entry(&pool, list[i].idx)->state;
		if (ring_pin(&pool, list[i].idx, s, &pinned) == 0 && i % 2)
			ring_unpin(&pool, list[i].idx, pinned);
		else if (i % 5 == 0)
			ring_reclaim(&pool, list[i].idx, s);
	}
	ring_retire(&pool, 0, 0, cuts[0], mode, clock_used);
	for (uint32_t i = 0; i < 8; i++) {
		ring_revoke(&pool, i);
		ring_grant(&pool, i, 0);
	}
}

/* One bad store of the program into its pool, many times over: nothing crashes, nothing hangs. */
static void rubbish_in_the_pool_is_survived(void **state)
{
	uint32_t words = geometry_header_len(&geometry) / 8, rounds = 0;
	time_t end = time(NULL) + 3;
	struct pool_header *h = ring_header(&pool);

	need_mode();
	grant(0, 32, 0);
	grant(1024, 4, 0);
	while (time(NULL) < end) {
		/* Half of them into page 0, where most is read; the header's geometry is never
		 * read again. */
		uint32_t at = (uint32_t)(random_next() % (rounds & 1 ? 512 : words));

		((volatile uint64_t *)base)[at] = rubbish();
		for (int i = 0; i < 50; i++)
			emit(0, 1, 2 + (uint32_t)(random_next() % 300));
		if (rounds++ % 20 == 0)
			reader_survives();
		if (rounds % 500 == 0) {
			memset((char *)base + POOL_LINES0_OFF, 0, POOL_TABLE_OFF - POOL_LINES0_OFF);
			h->flight = UINT32_MAX;
		}
	}
	print_message("%u bad words\n", rounds);
	/* With the table and the lines as new, it is an ordinary pool again. */
	memset((char *)base + POOL_LINES0_OFF, 0, geometry_header_len(&geometry) - POOL_LINES0_OFF);
	memset(h->channel, 0, sizeof(h->channel));
	h->flight = UINT32_MAX;
	for (uint32_t c = 0; c < 2; c++)
		h->n_used[c] = pool.n_used[c];
	grant(0, 4, 0);
	for (int i = 0; i < 300; i++)
		assert_int_equal(emit(0, 1, 100), RING_OK);
	assert_in_range(read_all(0).n, 3 * 38, 4 * 38);
}

#define BOTH(f)                                                                                    \
	{ #f " (rseq)", f, setup_rseq, teardown, NULL },                                           \
	{                                                                                          \
#f " (lock)", f, setup_lock, teardown, NULL                                        \
	}

/* What this environment (a tunable, valgrind, another machine) leaves to choose. */
static int check_mode(const char *expected)
{
	enum ring_mode m = ring_mode_choose(TRACE_CLOCK_TSC);

	return m == (strcmp(expected, "rseq") == 0 ? RING_RSEQ : RING_LOCK) ? 0 : 1;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		BOTH(every_length_and_id_comes_back),
		BOTH(too_big_is_lost_and_counted),
		BOTH(first_event_uses_a_promise),
		BOTH(quiet_process_costs_four_pages),
		BOTH(refused_promise_is_a_loss),
		BOTH(without_flight_a_full_pool_loses),
		BOTH(channels_do_not_mix),
		BOTH(retired_stream_goes_on),
		BOTH(foreign_pools_are_refused),
		cmocka_unit_test_setup_teardown(
			nested_handlers_find_a_stream, setup_lock, teardown),
		BOTH(losses_add_up),
		BOTH(a_switch_wakes_the_daemon),
		BOTH(rubbish_in_the_pool_is_survived),
	};

	if (argc > 1)
		return check_mode(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
