/* SPDX-License-Identifier: MIT */
/* Books of grants: see pool.h. */

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/random.h>

#include "daemon/daemon.h"
#include "daemon/memory/grant.h"
#include "daemon/memory/pool.h"
#include "daemon/session.h"

#define REGION_SHIFT_MIN 20u
#define REGION_SHIFT_MAX 30u
#define REGION_SHIFT	 26u /* unless a budget is larger */
#define SMALL_SHIFT	 12u
#define LARGE_SHIFT	 16u
/* The table in page 0 has 64 entries: so many small ones, and some large ones for the advance, that
 * promising them costs no further page. */
#define SMALL_MAX  (64u - 3 * GRANT_ADVANCE_MAX / 2)
#define GIVE_TRIES 8 /* entries that a program spoiled are passed over */

/* --- geometry ------------------------------------------------------------------------------------- */

static int geometry_choose(const struct daemon *d, uint64_t room, struct pool_geometry *g)
{
	uint32_t shift = REGION_SHIFT;
	uint64_t budget = 0;
	struct session *s;

	list_for_each(s, &d->sessions, struct session, link)
		if (s->budget > budget)
			budget = s->budget;
	while (shift < REGION_SHIFT_MAX && (UINT64_C(1) << shift) < budget)
		shift++;
	for (; shift >= REGION_SHIFT_MIN; shift--) {
		uint32_t n_small = 1u << (shift - SMALL_SHIFT);

		*g = (struct pool_geometry){
			.region_shift = shift,
			.n_streams = d->n_streams,
			.n_classes = 2,
			.class_shift = { SMALL_SHIFT, LARGE_SHIFT },
			.n_subs = { n_small < SMALL_MAX ? n_small : SMALL_MAX,
				1u << (shift - LARGE_SHIFT) },
		};
		/* Half of what the program can spare: it wants to live too. */
		if (geometry_span(g) <= room / 2 && geometry_valid(g))
			return 0;
	}
	return -ENOMEM;
}

static uint64_t cookie_make(void)
{
	uint64_t cookie = 0;

	while (cookie == 0)
		if (getrandom(&cookie, sizeof(cookie), 0) != sizeof(cookie))
			return 0;
	return cookie;
}

int pool_new(struct daemon *d, uint64_t room, enum ring_mode mode, struct pool **ret)
{
	struct pool_geometry g;
	uint64_t cookie = cookie_make();
	struct pool *p;
	int r = geometry_choose(d, room, &g);

	if (r < 0)
		return r;
	if (cookie == 0)
		return -EIO;
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->mode = mode;
	p->clock = d->clock.kind;
	p->subs = calloc(geometry_n_subs(&g), sizeof(*p->subs));
	r = p->subs ? ring_pool_init(&p->ring, &g, cookie) : -ENOMEM;
	if (r < 0) {
		free(p->subs);
		free(p);
		return r;
	}
	p->base_bytes = POOL_PAGE;
	*ret = p;
	return 0;
}

/* --- memory --------------------------------------------------------------------------------------- */

static int punch_range(struct pool *p, uint64_t off, uint64_t len)
{
	int r;

	do {
		r = fallocate(p->ring.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)off,
			(off_t)len);
	} while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : 0;
}

uint32_t pool_sub_size(const struct pool *p, uint32_t idx)
{
	return geometry_sub_size(&p->ring.geometry, idx);
}

/* The books of one sub-buffer no longer have it. */
static void books_drop(struct daemon *d, struct pool *p, uint32_t idx)
{
	struct pool_sub *sub = &p->subs[idx];
	struct pool_channel_books *b = &p->channel[sub->ch];
	uint32_t size = pool_sub_size(p, idx);

	assert(sub->kind != POOL_SUB_NONE && b->charged >= size);
	if (sub->kind == POOL_SUB_GOING) {
		b->going -= size;
		p->n_going--;
	} else {
		b->n_subs--;
	}
	b->charged -= size;
	d->channels[sub->ch]->charged -= size;
	sub->kind = POOL_SUB_NONE;
}

void pool_free(struct daemon *d, struct pool *p)
{
	const struct pool_geometry *g = &p->ring.geometry;

	for (uint32_t i = 0; i < p->ring.n_subs; i++)
		if (p->subs[i].kind != POOL_SUB_NONE)
			books_drop(d, p, i);
	/* A child that never ran exec may still map it. */
	punch_range(p, UINT64_C(1) << g->region_shift, (uint64_t)g->n_classes << g->region_shift);
	ring_pool_fini(&p->ring);
	for (uint32_t ch = 0; ch < POOL_N_CHANNELS; ch++)
		free(p->channel[ch].seen);
	free(p->subs);
	free(p);
}

int pool_give(struct daemon *d, struct pool *p, struct session *s, uint32_t class, bool promise)
{
	const struct pool_geometry *g = &p->ring.geometry;
	struct pool_channel_books *b = &p->channel[s->channel];
	uint32_t first = geometry_class_first(g, class), tries = 0;
	int r = -ENOSPC;

	for (uint32_t i = 0; i < g->n_subs[class] && tries < GIVE_TRIES; i++) {
		uint32_t idx = first + i, size = 1u << g->class_shift[class];

		if (p->subs[idx].kind != POOL_SUB_NONE)
			continue;
		r = promise ? ring_promise(&p->ring, idx, s->channel)
			    : ring_grant(&p->ring, idx, s->channel);
		tries++;
		if (r == RING_BUSY) {
			r = -ENOSPC;
			continue;
		}
		if (r < 0)
			return r;
		p->subs[idx] = (struct pool_sub){
			.kind = promise ? POOL_SUB_PROMISED : POOL_SUB_HELD,
			.ch = (uint8_t)s->channel,
		};
		if (i >= p->n_end[class])
			p->n_end[class] = i + 1;
		b->n_subs++;
		b->charged += size;
		s->charged += size;
		return 0;
	}
	return r;
}

static void books_going(struct pool *p, uint32_t idx)
{
	struct pool_sub *sub = &p->subs[idx];
	struct pool_channel_books *b = &p->channel[sub->ch];

	sub->kind = POOL_SUB_GOING;
	b->n_subs--;
	b->going += pool_sub_size(p, idx);
	p->n_going++;
}

int pool_reclaim(struct pool *p, uint32_t idx, uint64_t state)
{
	int r = ring_reclaim(&p->ring, idx, state);

	if (r == 0)
		books_going(p, idx);
	return r;
}

int pool_revoke(struct pool *p, uint32_t idx)
{
	int r = ring_revoke(&p->ring, idx);

	if (r == 0)
		books_going(p, idx);
	return r;
}

static bool is_promised(const struct pool *p, uint32_t idx, uint32_t ch)
{
	return p->subs[idx].kind == POOL_SUB_PROMISED && p->subs[idx].ch == ch &&
	       state_kind(atomic_load_explicit(
		       &ring_entry(&p->ring, idx)->state, memory_order_relaxed)) == SUB_PROMISED;
}

uint64_t pool_promised_bytes(const struct pool *p, uint32_t ch)
{
	uint64_t bytes = 0;

	for (uint32_t c = 0; c < p->ring.geometry.n_classes; c++) {
		uint32_t first = geometry_class_first(&p->ring.geometry, c);

		for (uint32_t i = first; i < first + p->n_end[c]; i++)
			if (is_promised(p, i, ch))
				bytes += pool_sub_size(p, i);
	}
	return bytes;
}

uint32_t pool_revoke_promised(struct pool *p, uint32_t ch, uint32_t class, uint32_t n)
{
	uint32_t first = geometry_class_first(&p->ring.geometry, class), done = 0;

	for (uint32_t i = first + p->n_end[class]; i > first && done < n; i--)
		if (is_promised(p, i - 1, ch))
			done += pool_revoke(p, i - 1) == 0;
	return done;
}

/* By the books, not by the table: a program that writes states into the table keeps nothing. */
void pool_punch_one(struct daemon *d, struct pool *p, uint32_t idx)
{
	if (p->subs[idx].kind == POOL_SUB_GOING &&
		punch_range(p, geometry_sub_off(&p->ring.geometry, idx), pool_sub_size(p, idx)) ==
			0)
		books_drop(d, p, idx);
}

void pool_punch(struct daemon *d, struct pool *p)
{
	for (uint32_t c = 0; c < p->ring.geometry.n_classes && p->n_going > 0; c++) {
		uint32_t first = geometry_class_first(&p->ring.geometry, c);

		for (uint32_t i = first; i < first + p->n_end[c]; i++)
			pool_punch_one(d, p, i);
	}
}

void pool_drop(struct daemon *d, struct pool *p, uint32_t idx)
{
	_Atomic uint64_t *state = &ring_entry(&p->ring, idx)->state;
	uint64_t s = atomic_load_explicit(state, memory_order_acquire);

	/* No writer is left, so current ones may change too. */
	atomic_store_explicit(
		state, state_make(SUB_ABSENT, 0, 0, state_ver(s) + 1, 0), memory_order_release);
	books_going(p, idx);
	pool_punch_one(d, p, idx);
}

/* --- audit ---------------------------------------------------------------------------------------- */

/* Pages of the header region that a well-behaved program and we can have touched. */
static uint64_t base_allowed(const struct pool *p)
{
	return geometry_header_len(&p->ring.geometry);
}

/* Everything that was not given, in as few calls as there are gaps. */
static void punch_gaps(struct pool *p)
{
	const struct pool_geometry *g = &p->ring.geometry;

	for (uint32_t c = 0; c < g->n_classes; c++) {
		uint32_t first = geometry_class_first(&p->ring.geometry, c);
		uint64_t region = (uint64_t)(c + 1) << g->region_shift;
		uint64_t from = region, size = UINT64_C(1) << g->class_shift[c];

		for (uint32_t i = 0; i < p->n_end[c]; i++) {
			if (p->subs[first + i].kind == POOL_SUB_NONE)
				continue;
			if (region + i * size > from)
				punch_range(p, from, region + i * size - from);
			from = region + (i + 1) * size;
		}
		if (from < region + (UINT64_C(1) << g->region_shift))
			punch_range(p, from, region + (UINT64_C(1) << g->region_shift) - from);
	}
	if (base_allowed(p) < UINT64_C(1) << g->region_shift)
		punch_range(p, base_allowed(p), (UINT64_C(1) << g->region_shift) - base_allowed(p));
}

/* Bytes of the header region that are there. */
static uint64_t base_measure(const struct pool *p)
{
	uint64_t end = base_allowed(p), n = 0;
	off_t at = 0, hole;

	while ((uint64_t)at < end) {
		at = lseek(p->ring.fd, at, SEEK_DATA);
		if (at < 0 || (uint64_t)at >= end)
			break;
		hole = lseek(p->ring.fd, at, SEEK_HOLE);
		if (hole < 0)
			break;
		n += ((uint64_t)hole < end ? (uint64_t)hole : end) - (uint64_t)at;
		at = hole;
	}
	return n;
}

void pool_audit(struct pool *p)
{
	uint64_t allowed = 0, bytes = ring_pool_bytes(&p->ring);

	for (uint32_t ch = 0; ch < POOL_N_CHANNELS; ch++)
		allowed += p->channel[ch].charged;
	p->base_bytes = base_measure(p);
	if (bytes > allowed + p->base_bytes)
		punch_gaps(p);
}
