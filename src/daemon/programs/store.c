/* SPDX-License-Identifier: MIT */

/*
 * Packets of the dead: see store.h. Per uid a heap of packets, the one with the oldest last record
 * on top: all that is ever dropped is dropped there.
 */

#include "daemon/programs/store.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "ctf/record.h"
#include "daemon/daemon.h"
#include "daemon/programs/process.h"
#include "daemon/session.h"

/* Bytes: what malloc() keeps in front of a block, and a packet's place in a heap that doubles. */
#define PACKET_OVERHEAD 24u

struct party {
	struct list link;
	uid_t uid;
	uint64_t used;
	struct store_packet **heap; /* owned, and the packets */
	uint32_t n, room;
};

struct store {
	struct session *session; /* borrowed: owns us */
	struct list parties;
	uint64_t used;
	uint32_t n_packets;
	uint32_t holds;
	bool clear; /* when the last hold is gone */
};

struct store *store_new(struct session *s)
{
	struct store *st = calloc(1, sizeof(*st));

	if (st) {
		st->session = s;
		list_init(&st->parties);
	}
	return st;
}

/* --- heap ------------------------------------------------------------------------------------- */

static void sift_up(struct store_packet **heap, uint32_t i)
{
	while (i > 0 && heap[i]->last_ts < heap[(i - 1) / 2]->last_ts) {
		struct store_packet *t = heap[i];

		heap[i] = heap[(i - 1) / 2];
		heap[(i - 1) / 2] = t;
		i = (i - 1) / 2;
	}
}

static void sift_down(struct store_packet **heap, uint32_t n, uint32_t i)
{
	for (;;) {
		struct store_packet *t = heap[i];
		uint32_t least = i;

		for (uint32_t k = 2 * i + 1; k <= 2 * i + 2 && k < n; k++)
			if (heap[k]->last_ts < heap[least]->last_ts)
				least = k;
		if (least == i)
			return;
		heap[i] = heap[least];
		heap[least] = t;
		i = least;
	}
}

static struct party *party_find(const struct store *st, uid_t uid)
{
	struct party *y;

	list_for_each(y, &st->parties, struct party, link)
		if (y->uid == uid)
			return y;
	return NULL;
}

static void party_forget_empty(struct party *y)
{
	if (y->n > 0)
		return;
	list_remove(&y->link);
	free(y->heap);
	free(y);
}

/* The party of uid with room for one more packet; NULL without memory. */
static struct party *party_with_room(struct store *st, uid_t uid)
{
	struct party *y = party_find(st, uid);
	struct store_packet **heap;

	if (!y) {
		y = calloc(1, sizeof(*y));
		if (!y)
			return NULL;
		y->uid = uid;
		list_append(&st->parties, &y->link);
	}
	if (y->n < y->room)
		return y;
	heap = reallocarray(y->heap, y->room ? 2 * (size_t)y->room : 16, sizeof(void *));
	if (!heap) {
		party_forget_empty(y);
		return NULL;
	}
	y->room = y->room ? 2 * y->room : 16;
	y->heap = heap;
	return y;
}

/* --- costs ------------------------------------------------------------------------------------ */

/* What it costs that a dead process is still known. */
static uint64_t process_cost(const struct process *p)
{
	return sizeof(struct process) + sizeof(struct process_channel) +
	       p->n_streams * sizeof(uint64_t) + (p->exe ? strlen(p->exe) + 1 : 0);
}

static uint64_t packet_cost(struct store_packet *k)
{
	return malloc_usable_size(k) + PACKET_OVERHEAD;
}

static void charge(struct store *st, struct party *y, struct store_packet *k)
{
	struct process_channel *c = process_tally(k->process, st->session);
	uint64_t cost = packet_cost(k);

	if (c) {
		if (c->store_packets++ == 0)
			cost += process_cost(k->process);
		c->store_bytes += cost;
	}
	y->used += cost;
	st->used += cost;
	st->n_packets++;
}

/* Removes the oldest packet of a party, which may go with it. Returns the bytes given back. */
static uint64_t drop(struct store *st, struct party *y, bool aged)
{
	struct store_packet *k = y->heap[0];
	struct process_channel *c = process_tally(k->process, st->session);
	uint64_t cost = packet_cost(k);

	y->heap[0] = y->heap[--y->n];
	if (y->n > 0)
		sift_down(y->heap, y->n, 0);
	if (c) {
		if (--c->store_packets == 0)
			cost += process_cost(k->process);
		c->store_bytes -= cost;
		if (aged)
			c->aged += k->n;
	}
	y->used -= cost;
	st->used -= cost;
	st->n_packets--;
	process_unref(k->process);
	free(k);
	party_forget_empty(y);
	return cost;
}

/* --- in and out ------------------------------------------------------------------------------- */

static uint32_t body_len(void *registry, uint32_t id, const uint8_t *body, uint32_t avail)
{
	const struct registry_event *e = registry_get(registry, id);

	return e ? ctf_body_len(e->layout, body, avail) : 0;
}

/* Copies and verifies k into a new packet; a refused one is cut down to a mark. NULL: no memory. */
static struct store_packet *packet_make(
	const struct daemon *d, struct process *p, const struct ring_packet *k)
{
	uint32_t size = k->size > SUB_HEADER_SIZE ? k->size : SUB_HEADER_SIZE, n = 0;
	struct store_packet *new = malloc(sizeof(*new) + size - SUB_HEADER_SIZE), *mark;
	uint64_t now = clock_now(&d->clock), last_ts = 0;
	struct ring_packet listed = *k;
	int refused;

	if (!new)
		return NULL;
	/* A program may have put any time into its table. */
	if (!k->current && k->end_ts > now)
		listed.end_ts = now;
	if (ring_copy(&p->pool->ring, &listed, &new->header) == 0)
		refused = ring_verify(
			&listed, &new->header, now, body_len, NULL, d->registry, &n, &last_ts);
	else
		refused = 1 + LEFT_RACED;
	if (refused) {
		mark = realloc(new, sizeof(*new));
		new = mark ? mark : new;
		memset(&new->header, 0, sizeof(new->header));
		n = 0;
		size = SUB_HEADER_SIZE;
		last_ts = k->current ? now : listed.end_ts;
	}
	new->process = p;
	new->end_ts = k->current ? last_ts : listed.end_ts;
	new->last_ts = last_ts;
	new->idx = k->idx;
	new->stream = k->stream;
	new->gen = k->gen;
	new->n = n;
	new->open = k->current;
	new->size = size;
	new->refused = (uint32_t)refused;
	return new;
}

int store_take(struct store *st, struct process *p, const struct ring_packet *k)
{
	struct store_packet *new;
	struct party *y;

	if (k->size == SUB_HEADER_SIZE)
		return 0;
	y = party_with_room(st, p->uid);
	if (!y)
		return -ENOMEM;
	new = packet_make(st->session->daemon, p, k);
	if (!new) {
		party_forget_empty(y);
		return -ENOMEM;
	}
	process_ref(p);
	y->heap[y->n++] = new;
	sift_up(y->heap, y->n - 1);
	charge(st, y, new);
	return 0;
}

uint64_t store_drop_older(struct store *st, uint64_t ts)
{
	uint64_t bytes = 0;
	struct party *y;

	if (st->holds > 0)
		return 0;
	list_for_each(y, &st->parties, struct party, link)
		for (uint32_t n = y->n; n > 0 && y->heap[0]->last_ts < ts; n--)
			bytes += drop(st, y, true);
	return bytes;
}

uint64_t store_drop_oldest(struct store *st, uid_t uid, uint64_t bytes)
{
	struct party *y = party_find(st, uid);
	uint64_t back = 0;

	if (!y || st->holds > 0)
		return 0;
	for (uint32_t n = y->n; n > 0 && back < bytes; n--)
		back += drop(st, y, false);
	return back;
}

void store_clear(struct store *st)
{
	struct party *y;

	st->clear = st->holds > 0;
	if (st->clear)
		return;
	list_for_each(y, &st->parties, struct party, link)
		for (uint32_t n = y->n; n > 0; n--)
			drop(st, y, false);
}

void store_free(struct store *st)
{
	struct party *y;

	if (!st)
		return;
	list_for_each(y, &st->parties, struct party, link) {
		while (y->n > 0)
			free(y->heap[--y->n]);
		party_forget_empty(y);
	}
	free(st);
}

void store_hold(struct store *st)
{
	st->holds++;
}

void store_release(struct store *st)
{
	if (--st->holds == 0 && st->clear)
		store_clear(st);
}

/* --- questions -------------------------------------------------------------------------------- */

uint64_t store_used(const struct store *st)
{
	return st->used;
}

uint32_t store_n_packets(const struct store *st)
{
	return st->n_packets;
}

uint64_t store_oldest(const struct store *st)
{
	uint64_t oldest = UINT64_MAX;
	struct party *y;

	list_for_each(y, &st->parties, struct party, link)
		if (y->heap[0]->last_ts < oldest)
			oldest = y->heap[0]->last_ts;
	return oldest;
}

void store_parties(const struct store *st, store_party_fn *visit, void *arg)
{
	struct party *y;

	list_for_each(y, &st->parties, struct party, link)
		visit(arg, y->uid, y->used);
}

void store_visit(const struct store *st, store_visit_fn *visit, void *arg)
{
	struct party *y;

	list_for_each(y, &st->parties, struct party, link)
		for (uint32_t i = 0; i < y->n; i++)
			visit(arg, y->heap[i]);
}
