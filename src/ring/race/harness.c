/* SPDX-License-Identifier: MIT */
/* What the race tests share: see harness.h. */

#include "ring/race/harness.h"

#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define CHAIN_SLOTS 4096u

struct harness *harness;
struct ring_pool test_pool;
struct ring_writer test_writer;
void (*harness_on_record)(uint32_t slot, uint64_t seq);

static enum trace_clock test_clock;

static const char *const defect_names[N_DEFECTS] = { "header", "record", "time", "chain", "count",
	"lost", "hole", "pinned", "close", "orphans", "wedged", "oldest", "burnt" };

void defect(enum defect d, const char *format, ...)
{
	va_list args;

	STAT_ADD(defects[d], 1);
	if (STAT_ADD(messages, 1) >= 20)
		return;
	va_start(args, format);
	fprintf(stderr, "defect %s: ", defect_names[d]);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
}

static void check_or_die(bool ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	exit(1);
}

void harness_init(enum ring_mode mode, uint32_t flight, uint32_t gen0, uint32_t n_classes)
{
	struct pool_geometry g = {
		.region_shift = 20,
		.n_streams = N_STREAMS,
		.n_classes = n_classes,
		.class_shift = { SMALL_SHIFT, LARGE_SHIFT },
		.n_subs = { N_SMALL, N_LARGE },
	};
	void *base;

	test_clock = mode == RING_RSEQ ? TRACE_CLOCK_TSC : TRACE_CLOCK_MONOTONIC;
	if (mode == RING_RSEQ && ring_mode_choose(test_clock) != RING_RSEQ) {
		printf("skipped: no rseq here\n");
		exit(77);
	}
	harness = mmap(
		NULL, sizeof(*harness), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	check_or_die(harness != MAP_FAILED, "mmap");
	check_or_die(ring_pool_init(&test_pool, &g, 1) == 0, "ring_pool_init");
	ring_header(&test_pool)->flight = flight;
	base = mmap(NULL, geometry_span(&g), PROT_READ | PROT_WRITE, MAP_SHARED, test_pool.fd, 0);
	check_or_die(base != MAP_FAILED, "mmap pool");
	check_or_die(ring_writer_init(
			     &test_writer, base, geometry_span(&g), NULL, mode, test_clock) == 0,
		"ring_writer_init");
	for (uint32_t ch = 0; gen0 != 0 && ch < N_TEST_CH; ch++)
		for (uint32_t i = 0; i < N_STREAMS; i++) {
			test_line(ch, i)->pos = pos_make(gen0, 0, 0);
			test_line(ch, i)->next = pair_make(gen0, SUB_NONE);
		}
}

void harness_grant_all(uint32_t n_channels)
{
	for (uint32_t i = 0; i < test_pool.n_subs; i++)
		check_or_die(ring_grant(&test_pool, i, i % n_channels) == 0, "ring_grant");
}

uint64_t random_next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

void pin_to_cpu(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	check_or_die(sched_setaffinity(0, sizeof(set), &set) == 0, "sched_setaffinity");
}

void die_with_parent(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}

double seconds_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

struct stream_line *test_line(uint32_t ch, uint32_t stream)
{
	return ring_line(&test_pool, ch, stream);
}

struct sub_entry *test_entry(uint32_t idx)
{
	return ring_entry(&test_pool, idx);
}

uint64_t test_state(uint32_t idx)
{
	return atomic_load_explicit(&test_entry(idx)->state, memory_order_acquire);
}

bool test_retired(uint32_t idx, uint64_t state)
{
	return ring_classify(&test_pool, idx, state, NULL) == RING_RETIRED;
}

/* --- records ------------------------------------------------------------------------------------ */

struct __attribute__((packed)) test_body {
	uint32_t slot;
	uint16_t len;
	uint64_t seq, before;
};

static uint32_t checksum(const uint8_t *data, uint32_t len)
{
	uint32_t h = 2166136261u;

	for (uint32_t i = 0; i < len; i++)
		h = (h ^ data[i]) * 16777619u;
	return h;
}

bool harness_emit(uint32_t slot, uint32_t ch, uint32_t body_len)
{
	_Alignas(8) uint8_t body[RECORD_BODY_MAX + 64];
	struct slot *s = &harness->slot[slot];
	struct test_body b = { slot, (uint16_t)body_len, s->acked, ring_clock(test_clock) };
	uint32_t sum;

	memcpy(body, &b, sizeof(b));
	memset(body + sizeof(b), (int)(slot + s->acked), body_len - sizeof(b) - 4);
	sum = checksum(body, body_len - 4);
	memcpy(body + body_len - 4, &sum, 4);
	memset(body + body_len, 0xee, RECORD_SLACK);
	if (ring_emit(&test_writer, ch, 1 + slot % 60000, body, body_len) != RING_OK) {
		__atomic_fetch_add(&s->failed, 1, __ATOMIC_RELAXED);
		return false;
	}
	__atomic_store_n(&s->acked, b.seq + 1, __ATOMIC_RELEASE);
	return true;
}

bool harness_emit_random(uint32_t slot, uint64_t *random)
{
	uint64_t r = random_next(random);
	uint32_t len = TEST_BODY_MIN + r % 64;

	if ((r >> 8) % 50 == 0)
		len = 200 + (r >> 16) % 1400;
	return harness_emit(slot, (r >> 40) % N_TEST_CH, len);
}

struct check_arg {
	const struct ring_packet *k;
	bool account, bad;
	uint64_t n;
};

static uint32_t test_body_len(void *arg, uint32_t id, const uint8_t *body, uint32_t avail)
{
	struct test_body b;

	if (avail < sizeof(b))
		return 0;
	memcpy(&b, body, sizeof(b));
	return b.len >= TEST_BODY_MIN && b.len <= avail ? b.len : 0;
}

static void check_record(void *arg, const struct ring_record *r)
{
	struct check_arg *a = arg;
	struct test_body b;
	uint32_t sum;

	memcpy(&b, r->body, sizeof(b));
	memcpy(&sum, r->body + r->body_len - 4, 4);
	if (b.slot >= N_SLOTS || r->id != 1 + b.slot % 60000 ||
		sum != checksum(r->body, r->body_len - 4)) {
		defect(DEFECT_RECORD, "idx %u gen %u: record %llu is damaged", a->k->idx, a->k->gen,
			(unsigned long long)a->n);
		a->bad = true;
		return;
	}
	if (r->ts < b.before) {
		defect(DEFECT_TIME, "record at %llx, but the call began at %llx",
			(unsigned long long)r->ts, (unsigned long long)b.before);
		a->bad = true;
	}
	if (a->account) {
		struct slot *s = &harness->slot[b.slot];

		s->found++;
		s->sum += b.seq;
		s->sum_squares += b.seq * b.seq;
	}
	if (harness_on_record)
		harness_on_record(b.slot, b.seq);
	a->n++;
}

static uint64_t mix(uint64_t x)
{
	x ^= x >> 31;
	x *= UINT64_C(0xff51afd7ed558ccd);
	x ^= x >> 33;
	x *= UINT64_C(0xc4ceb9fe1a85ec53);
	return x ^ x >> 29;
}

int harness_check(const struct ring_packet *k, const void *copy, bool account, struct checked *ret)
{
	static const enum defect why[] = { DEFECT_HEADER, DEFECT_RECORD, DEFECT_TIME };
	struct check_arg a = { .k = k, .account = account };
	struct sub_header h;
	int r;

	memcpy(&h, copy, sizeof(h));
	r = ring_verify(k, copy, ring_clock(test_clock), test_body_len, check_record, &a, &ret->n,
		&ret->last_ts);
	if (r > 0)
		defect(why[r - 1],
			"idx %u ch %u stream %u gen %u size %u current %d: header %llx begin %llx",
			k->idx, k->ch, k->stream, k->gen, k->size, k->current,
			(unsigned long long)h.id, (unsigned long long)h.begin_ts);
	if (r > 0 || a.bad)
		return -1;
	ret->n_before = h.n_before;
	ret->n_after = h.n_before + ret->n;
	ret->begin_ts = h.begin_ts;
	STAT_ADD(packets, 1);
	STAT_ADD(records, ret->n);
	if (account) {
		harness->taken[k->ch][k->stream] += ret->n;
		harness->ranges[k->ch][k->stream] += mix(ret->n_after) - mix(ret->n_before);
	}
	return 0;
}

void harness_chain(const struct ring_packet *k, const struct checked *c)
{
	static struct {
		uint32_t gen;
		uint64_t begin, end, n_before, n_after;
	} seen[N_TEST_CH][N_STREAMS][CHAIN_SLOTS];
	__typeof__(seen[0][0][0]) *me, *prev, *next;

	me = &seen[k->ch][k->stream][k->gen % CHAIN_SLOTS];
	prev = &seen[k->ch][k->stream][((k->gen - 1) & GEN_MASK) % CHAIN_SLOTS];
	next = &seen[k->ch][k->stream][gen_next(k->gen) % CHAIN_SLOTS];
	me->gen = k->gen;
	me->begin = c->begin_ts;
	me->end = k->end_ts;
	me->n_before = c->n_before;
	me->n_after = c->n_after;
	if (prev->end && prev->gen == ((k->gen - 1) & GEN_MASK)) {
		STAT_ADD(chained, 1);
		if (prev->end != me->begin)
			defect(DEFECT_CHAIN, "gen %u begins when its predecessor had not ended",
				k->gen);
		if (prev->n_after != me->n_before)
			defect(DEFECT_COUNT, "stream %u.%u gen %u: %llu before it, but %llu", k->ch,
				k->stream, k->gen, (unsigned long long)me->n_before,
				(unsigned long long)prev->n_after);
	}
	if (next->begin && next->gen == gen_next(k->gen) && k->end_ts) {
		if (next->begin != me->end)
			defect(DEFECT_CHAIN, "gen %u ends when its successor has not begun",
				k->gen);
		if (next->n_before != me->n_after)
			defect(DEFECT_COUNT, "stream %u.%u gen %u: %llu in all, but next says %llu",
				k->ch, k->stream, k->gen, (unsigned long long)me->n_after,
				(unsigned long long)next->n_before);
	}
}

/* --- snapshots ---------------------------------------------------------------------------------- */

struct kept {
	struct ring_packet k;
	struct checked c;
};

static int newest_first(const void *va, const void *vb)
{
	const struct ring_packet *a = va, *b = vb;

	if (a->begin_ts != b->begin_ts)
		return a->begin_ts < b->begin_ts ? 1 : -1;
	if (a->stream != b->stream)
		return a->stream < b->stream ? 1 : -1;
	return gen_after(b->gen, a->gen) ? 1 : -1;
}

static int by_stream_and_gen(const void *va, const void *vb)
{
	const struct ring_packet *a = &((const struct kept *)va)->k;
	const struct ring_packet *b = &((const struct kept *)vb)->k;

	if (a->ch != b->ch)
		return a->ch < b->ch ? -1 : 1;
	if (a->stream != b->stream)
		return a->stream < b->stream ? -1 : 1;
	return gen_after(b->gen, a->gen) ? -1 : 1;
}

static uint32_t copy_all(struct ring_packet *list, uint32_t n, struct kept *kept,
	uint64_t n_cut[N_TEST_CH][N_STREAMS])
{
	static char buf[LARGE_SIZE];
	uint32_t n_kept = 0;

	for (uint32_t i = 0; i < n; i++) {
		struct kept *x = &kept[n_kept];

		x->k = list[i];
		if (x->k.size == 0) {
			/* Retired empty, or claimed again since it was listed. */
			uint64_t close = test_entry(x->k.idx)->close;

			if (close != 0 && test_state(x->k.idx) == x->k.state)
				defect(DEFECT_CLOSE, "idx %u state %llx close %llx", x->k.idx,
					(unsigned long long)x->k.state, (unsigned long long)close);
			STAT_ADD(empty, 1);
			continue;
		}
		if (ring_copy(&test_pool, &x->k, buf) != 0) {
			STAT_ADD(dropped, 1);
			continue;
		}
		if (harness_check(&x->k, buf, false, &x->c) != 0)
			continue;
		if (x->k.current && x->c.n_after != n_cut[x->k.ch][x->k.stream])
			defect(DEFECT_COUNT,
				"stream %u.%u: cut at %llu, current packet ends at %llu", x->k.ch,
				x->k.stream, (unsigned long long)n_cut[x->k.ch][x->k.stream],
				(unsigned long long)x->c.n_after);
		n_kept++;
	}
	return n_kept;
}

uint32_t harness_snapshot(bool strict)
{
	static struct ring_packet list[N_SUBS * N_TEST_CH];
	static struct kept kept[N_SUBS * N_TEST_CH];
	uint64_t cuts[N_TEST_CH][N_STREAMS], n_cut[N_TEST_CH][N_STREAMS];
	uint32_t n = 0, n_kept;

	for (uint32_t ch = 0; ch < N_TEST_CH; ch++)
		for (uint32_t i = 0; i < N_STREAMS; i++)
			n_cut[ch][i] = ring_stream_records(&test_pool, ch, i, &cuts[ch][i]);
	for (uint32_t ch = 0; ch < N_TEST_CH; ch++)
		n += ring_list(&test_pool, ch, cuts[ch], list + n);
	qsort(list, n, sizeof(*list), newest_first);
	n_kept = copy_all(list, n, kept, n_cut);
	qsort(kept, n_kept, sizeof(*kept), by_stream_and_gen);
	STAT_ADD(snapshots, 1);
	for (uint32_t i = 1; i < n_kept; i++) {
		const struct kept *a = &kept[i - 1], *b = &kept[i];

		if (a->k.ch != b->k.ch || a->k.stream != b->k.stream ||
			a->c.n_after == b->c.n_before)
			continue;
		STAT_ADD(holes, 1);
		if (strict)
			defect(DEFECT_HOLE,
				"stream %u.%u: gen %u ends at record %llu, gen %u begins "
				"at %llu",
				a->k.ch, a->k.stream, a->k.gen, (unsigned long long)a->c.n_after,
				b->k.gen, (unsigned long long)b->c.n_before);
	}
	return n_kept;
}

/* --- taking everything once --------------------------------------------------------------------- */

static bool consume_one(uint32_t idx)
{
	static char buf[LARGE_SIZE];
	uint64_t s = test_state(idx), pinned;
	struct ring_packet k = {
		.idx = idx, .ch = state_ch(s), .stream = state_cpu(s), .gen = state_gen(s)
	};
	struct checked c;
	uint64_t close;

	if (ring_pin(&test_pool, idx, s, &pinned) != 0)
		return false;
	k.state = pinned;
	k.begin_ts = test_entry(idx)->begin_ts;
	k.end_ts = test_entry(idx)->end_ts;
	close = test_entry(idx)->close;
	k.size = pair_low(close);
	if (close == 0)
		STAT_ADD(empty, 1);
	else if (pair_gen(close) != k.gen)
		defect(DEFECT_CLOSE, "idx %u gen %u close %llx", idx, k.gen,
			(unsigned long long)close);
	else if (ring_copy(&test_pool, &k, buf) == 0 && harness_check(&k, buf, true, &c) == 0)
		harness_chain(&k, &c);
	if (ring_consume(&test_pool, idx, pinned) != 0)
		defect(DEFECT_PINNED, "idx %u left its pin", idx);
	return true;
}

uint32_t harness_consume_all(void)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < test_pool.n_subs; i++)
		n += consume_one(i);
	return n;
}

void harness_consume_current(void)
{
	static char buf[LARGE_SIZE];
	static struct ring_packet list[N_SUBS];
	struct checked c;

	for (uint32_t ch = 0; ch < N_TEST_CH; ch++) {
		uint64_t cuts[N_STREAMS];
		uint32_t n;

		for (uint32_t i = 0; i < N_STREAMS; i++)
			ring_stream_records(&test_pool, ch, i, &cuts[i]);
		n = ring_list(&test_pool, ch, cuts, list);
		for (uint32_t i = 0; i < n; i++)
			if (list[i].current && ring_copy(&test_pool, &list[i], buf) == 0)
				harness_check(&list[i], buf, true, &c);
	}
}

uint64_t harness_committed(void)
{
	uint64_t n = 0;

	for (uint32_t ch = 0; ch < N_TEST_CH; ch++)
		for (uint32_t i = 0; i < N_STREAMS; i++)
			n += ring_stream_records(&test_pool, ch, i, NULL);
	return n;
}

static void check_slot(uint32_t slot)
{
	const struct slot *s = &harness->slot[slot];
	uint64_t sum = 0, squares = 0;

	for (uint64_t i = 0; i < s->found; i++) {
		sum += i;
		squares += i * i;
	}
	if (s->found != s->acked && s->found != s->acked + 1)
		defect(DEFECT_LOST, "slot %u: %llu records found, %llu acknowledged", slot,
			(unsigned long long)s->found, (unsigned long long)s->acked);
	else if (sum != s->sum || squares != s->sum_squares)
		defect(DEFECT_LOST, "slot %u: records doubled and missing", slot);
}

void harness_check_accounts(uint32_t n_slots)
{
	for (uint32_t ch = 0; ch < N_TEST_CH; ch++) {
		for (uint32_t i = 0; i < N_STREAMS; i++) {
			uint64_t n = ring_stream_records(&test_pool, ch, i, NULL);

			if (n != harness->taken[ch][i] || harness->ranges[ch][i] != mix(n) - mix(0))
				defect(DEFECT_COUNT, "stream %u.%u: count %llu, found %llu", ch, i,
					(unsigned long long)n,
					(unsigned long long)harness->taken[ch][i]);
		}
	}
	for (uint32_t i = 0; i < n_slots; i++)
		check_slot(i);
}

int harness_finish(const char *expected)
{
	uint64_t all = 0;

	printf("%llu packets and %llu records checked, %llu snapshots, %llu holes, %llu dropped, "
	       "%llu chained, %llu pins, %llu reclaims, %llu retirements (%llu with an orphan)\n",
		(unsigned long long)harness->packets, (unsigned long long)harness->records,
		(unsigned long long)harness->snapshots, (unsigned long long)harness->holes,
		(unsigned long long)harness->dropped, (unsigned long long)harness->chained,
		(unsigned long long)harness->pins, (unsigned long long)harness->reclaims,
		(unsigned long long)harness->retirements,
		(unsigned long long)harness->retired_orphans);
	for (int i = 0; i < N_DEFECTS; i++) {
		all += harness->defects[i];
		if (harness->defects[i])
			printf("defect %s: %llu\n", defect_names[i],
				(unsigned long long)harness->defects[i]);
		if (expected && strcmp(expected, defect_names[i]) == 0)
			return harness->defects[i] ? 0 : 1;
	}
	return all != 0;
}
