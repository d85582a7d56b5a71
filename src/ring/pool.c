/* SPDX-License-Identifier: MIT */
/*
 * The daemon's side of a pool: makes it, and moves its sub-buffers between states.
 *
 * Only region 0 is mapped here. Every transition is one CAS from a state word that was read
 * before, so it either happens exactly as decided or not at all. Memory comes before the grant and
 * goes after the reclaim: a writer that holds a sub-buffer never meets a hole in it.
 *
 * Memory orders: the CAS are acquire-release. (P) release: what the daemon did before (fallocate,
 * n_used, close = 0) is visible to the writer that reads the new word, partner (S) in switch.c.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ring/inject.h"
#include "ring/ring.h"
#include "ring/section.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

#define POOL_SEALS (F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL)

static int pool_memfd(void)
{
	int fd = memfd_create("varve-pool", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

	if (fd < 0 && errno == EINVAL) /* before Linux 6.3 */
		fd = memfd_create("varve-pool", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	return fd < 0 ? -errno : fd;
}

/* Takes fd over, also when it fails. */
static int pool_map(
	struct ring_pool *p, int fd_take, const struct pool_geometry *g, uint64_t cookie)
{
	size_t len = geometry_header_len(g);
	void *map = MAP_FAILED;
	uint8_t *touched;
	int r;

	touched = calloc(len / POOL_PAGE, 1);
	if (touched)
		map = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd_take, 0);
	if (map == MAP_FAILED) {
		r = -errno;
		free(touched);
		close(fd_take);
		return r;
	}
	madvise(map, len, MADV_DONTDUMP);
	*p = (struct ring_pool){
		.fd = fd_take,
		.map = map,
		.map_len = len,
		.geometry = *g,
		.n_subs = geometry_n_subs(g),
		.cookie = cookie,
		.touched = touched,
	};
	return 0;
}

int ring_pool_init(struct ring_pool *p, const struct pool_geometry *g, uint64_t cookie)
{
	struct pool_header *h;
	int fd, r;

	if (!geometry_valid(g))
		return -EINVAL;
	fd = pool_memfd();
	if (fd < 0)
		return fd;
	/* Page 0 is made here, so that a lack of memory is an error and not a SIGBUS. */
	if (ftruncate(fd, (off_t)geometry_span(g)) < 0 || fallocate(fd, 0, 0, POOL_PAGE) < 0 ||
		fcntl(fd, F_ADD_SEALS, POOL_SEALS) < 0) {
		r = -errno;
		close(fd);
		return r;
	}
	r = pool_map(p, fd, g, cookie);
	if (r < 0)
		return r;
	h = ring_header(p);
	h->magic = POOL_MAGIC;
	h->version = POOL_VERSION;
	h->header_size = sizeof(*h);
	h->cookie = cookie;
	h->geometry = *g;
	return 0;
}

/* A daemon that died while it retired a stream by lock left its mark there: it is ours now. What
 * it had stored by then is what any writer that dies inside a section leaves. */
static void pool_unlock_streams(struct ring_pool *p)
{
	for (uint32_t ch = 0; ch < POOL_N_CHANNELS; ch++) {
		for (uint32_t i = 0; i < p->geometry.n_streams && i < RING_LOCK_STREAMS_MAX; i++) {
			uint32_t owner = RING_OWNER_DAEMON;

			if (ring_line_exists(p, ch, i))
				atomic_compare_exchange_strong(
					&ring_line(p, ch, i)->owner, &owner, 0);
		}
	}
}

int ring_pool_open(struct ring_pool *p, int fd_take, const struct pool_geometry *g, uint64_t cookie)
{
	struct stat st;
	int r;

	/* Sealed means that no page of ours can go away under us by a truncation. */
	if (!geometry_valid(g) || (fcntl(fd_take, F_GET_SEALS) & POOL_SEALS) != POOL_SEALS ||
		fstat(fd_take, &st) < 0 || (uint64_t)st.st_size != geometry_span(g)) {
		close(fd_take);
		return -EINVAL;
	}
	r = pool_map(p, fd_take, g, cookie);
	if (r < 0)
		return r;
	for (uint32_t c = 0; c < g->n_classes; c++) {
		uint32_t n = atomic_load_explicit(&ring_header(p)->n_used[c], memory_order_acquire);

		p->n_used[c] = n < g->n_subs[c] ? n : g->n_subs[c];
	}
	pool_unlock_streams(p);
	return 0;
}

void ring_pool_fini(struct ring_pool *p)
{
	munmap(p->map, p->map_len);
	free(p->touched);
	close(p->fd);
	*p = (struct ring_pool){ .fd = -1 };
}

struct pool_header *ring_header(const struct ring_pool *p)
{
	return p->map;
}

struct stream_line *ring_line(const struct ring_pool *p, uint32_t ch, uint32_t stream)
{
	struct stream_line *lines =
		(void *)((char *)p->map + geometry_channel_off(&p->geometry, ch));

	return lines + stream;
}

struct sub_entry *ring_entry(const struct ring_pool *p, uint32_t idx)
{
	return (void *)((char *)p->map + geometry_entry_off(idx));
}

bool ring_line_exists(const struct ring_pool *p, uint32_t ch, uint32_t stream)
{
	uint32_t off = (uint32_t)((char *)ring_line(p, ch, stream) - (char *)p->map);
	uint8_t *touched = &p->touched[off / POOL_PAGE];

	/* A page that was there once is asked for no more; a program that punches it gets it back.
	 * Threads that race here store the same. */
	if (off >= POOL_PAGE && !__atomic_load_n(touched, __ATOMIC_RELAXED)) {
		off_t page = off & ~(POOL_PAGE - 1);

		if (lseek(p->fd, page, SEEK_DATA) != page)
			return false;
		__atomic_store_n(touched, 1, __ATOMIC_RELAXED);
	}
	return true;
}

uint64_t ring_pool_bytes(const struct ring_pool *p)
{
	struct stat st;

	return fstat(p->fd, &st) < 0 ? 0 : (uint64_t)st.st_blocks * 512;
}

static bool state_change(struct sub_entry *e, uint64_t from, uint64_t to)
{
	return atomic_compare_exchange_strong_explicit(
		&e->state, &from, to, memory_order_acq_rel, memory_order_acquire); /* (P) */
}

/* Whether a sub-buffer below n_used is there at all: only those have an entry worth reading. */
static bool pool_idx_used(const struct ring_pool *p, uint32_t idx)
{
	uint32_t class;

	if (idx >= p->n_subs)
		return false;
	class = geometry_class(&p->geometry, idx);
	return idx - geometry_class_first(&p->geometry, class) < p->n_used[class];
}

/* Lets writers' scans reach idx. Comes before the state changes, partner (N) in switch.c. */
static void pool_raise_used(struct ring_pool *p, uint32_t idx)
{
	uint32_t class = geometry_class(&p->geometry, idx);
	uint32_t n = idx - geometry_class_first(&p->geometry, class) + 1;

	if (n <= p->n_used[class])
		return;
	p->n_used[class] = n;
	atomic_store_explicit(&ring_header(p)->n_used[class], n, memory_order_release); /* (N) */
}

/* Tells writers that a scan for a free one is worth it again. After the state change. */
static void pool_tell_freed(struct ring_pool *p, uint32_t ch)
{
	atomic_fetch_add_explicit(&ring_header(p)->channel[ch].freed, 1, memory_order_release);
}

static int pool_give(struct ring_pool *p, uint32_t idx, uint32_t ch, enum sub_kind kind)
{
	const struct pool_geometry *g = &p->geometry;
	struct sub_entry *e;
	uint64_t s;

	if (idx >= p->n_subs || ch >= POOL_N_CHANNELS)
		return -EINVAL;
	e = ring_entry(p, idx);
	s = atomic_load_explicit(&e->state, memory_order_acquire);
	if (state_kind(s) != SUB_ABSENT)
		return RING_BUSY;
	if (kind == SUB_FREE &&
		fallocate(p->fd, 0, geometry_sub_off(g, idx), geometry_sub_size(g, idx)) < 0)
		return -errno;
	pool_raise_used(p, idx);
	if (!state_change(e, s, state_make(kind, ch, 0, state_ver(s) + 1, 0)))
		return RING_BUSY;
	pool_tell_freed(p, ch);
	return 0;
}

int ring_grant(struct ring_pool *p, uint32_t idx, uint32_t ch)
{
	return pool_give(p, idx, ch, SUB_FREE);
}

int ring_promise(struct ring_pool *p, uint32_t idx, uint32_t ch)
{
	return pool_give(p, idx, ch, SUB_PROMISED);
}

int ring_revoke(struct ring_pool *p, uint32_t idx)
{
	uint64_t s;

	if (!pool_idx_used(p, idx))
		return RING_BUSY;
	s = atomic_load_explicit(&ring_entry(p, idx)->state, memory_order_acquire);
	if (state_kind(s) != SUB_FREE && state_kind(s) != SUB_PROMISED)
		return RING_BUSY;
	if (!state_change(ring_entry(p, idx), s, state_make(SUB_ABSENT, 0, 0, state_ver(s) + 1, 0)))
		return RING_BUSY;
	return 0;
}

int ring_reclaim(struct ring_pool *p, uint32_t idx, uint64_t state)
{
	if (!pool_idx_used(p, idx) || ring_classify(p, idx, state, NULL) != RING_RETIRED)
		return RING_BUSY;
	/* RETIRED is stable while the word stays, so the CAS needs no second look at pos. */
	INJECT(INJECT_RECLAIM);
	if (!state_change(ring_entry(p, idx), state,
		    state_make(SUB_ABSENT, 0, 0, state_ver(state) + 1, 0)))
		return RING_BUSY;
	return 0;
}

int ring_pin(struct ring_pool *p, uint32_t idx, uint64_t state, uint64_t *ret_pinned)
{
	uint64_t pinned = state_make(SUB_PINNED, state_ch(state), state_cpu(state),
		state_ver(state) + 1, state_gen(state));

	if (!pool_idx_used(p, idx) || ring_classify(p, idx, state, NULL) != RING_RETIRED)
		return RING_BUSY;
	INJECT(INJECT_PIN);
	if (!state_change(ring_entry(p, idx), state, pinned))
		return RING_BUSY;
	*ret_pinned = pinned;
	return 0;
}

int ring_unpin(struct ring_pool *p, uint32_t idx, uint64_t pinned)
{
	uint64_t active = state_make(SUB_ACTIVE, state_ch(pinned), state_cpu(pinned),
		state_ver(pinned) + 1, state_gen(pinned));

	if (!pool_idx_used(p, idx) || state_kind(pinned) != SUB_PINNED)
		return RING_BUSY;
	return state_change(ring_entry(p, idx), pinned, active) ? 0 : RING_BUSY;
}

int ring_consume(struct ring_pool *p, uint32_t idx, uint64_t pinned)
{
	uint32_t ch = state_ch(pinned);
	struct sub_entry *e;

	if (!pool_idx_used(p, idx) || state_kind(pinned) != SUB_PINNED || ch >= POOL_N_CHANNELS)
		return RING_BUSY;
	e = ring_entry(p, idx);
	/* While it is pinned nobody else writes close. A stale one would be harmless (its gen does
	 * not fit the next life) but for a claimer that dies before it clears it, 2^32 lives on. */
	atomic_store_explicit(&e->close, 0, memory_order_relaxed);
	if (!state_change(e, pinned, state_make(SUB_FREE, ch, 0, state_ver(pinned) + 1, 0)))
		return RING_BUSY;
	pool_tell_freed(p, ch);
	return 0;
}

int ring_punch(struct ring_pool *p, uint32_t idx)
{
	const struct pool_geometry *g = &p->geometry;

	if (idx >= p->n_subs)
		return -EINVAL;
	if (pool_idx_used(p, idx) && state_kind(atomic_load_explicit(&ring_entry(p, idx)->state,
					     memory_order_acquire)) != SUB_ABSENT)
		return RING_BUSY;
	if (fallocate(p->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, geometry_sub_off(g, idx),
		    geometry_sub_size(g, idx)) < 0)
		return -errno;
	return 0;
}
