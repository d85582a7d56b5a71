/* SPDX-License-Identifier: MIT */
/*
 * Event layouts by id and by content: see registry.h.
 *
 * Readers in other threads see an id only through data that was written after its entry, or through
 * registry_end(); both load with acquire what registry_add() stores with release.
 */

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "daemon/programs/registry.h"
#include "wire/event.h"

#define N_BUCKETS (1u << 14) /* a power of two */

struct entry {
	struct registry_event event;
	uint64_t hash;
	uint32_t chain; /* id of the next entry of the same bucket; 0 ends it */
};

struct registry {
	uint32_t first;
	_Atomic uint32_t end;
	_Atomic(struct entry *) *entries; /* owned; by id - first */
	uint32_t *buckets;		  /* owned: ids; N_BUCKETS of them */
};

struct registry *registry_new(uint32_t first)
{
	struct registry *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	if (first == 0)
		first = 1;
	r->first = first;
	atomic_init(&r->end, first);
	/* Mostly untouched: the system gives pages as ids are dealt out. */
	r->entries = calloc(CONTROL_N_WORDS - first + 1, sizeof(*r->entries));
	r->buckets = calloc(N_BUCKETS, sizeof(*r->buckets));
	if (!r->entries || !r->buckets) {
		registry_free(r);
		return NULL;
	}
	return r;
}

void registry_free(struct registry *r)
{
	if (!r)
		return;
	for (uint32_t id = r->first; r->entries && id < r->end; id++) {
		struct entry *e = r->entries[id - r->first];

		free((void *)e->event.layout);
		free(e);
	}
	free((void *)r->entries);
	free(r->buckets);
	free(r);
}

uint32_t registry_first(const struct registry *r)
{
	return r->first;
}

uint32_t registry_end(const struct registry *r)
{
	return atomic_load_explicit(&r->end, memory_order_acquire);
}

static struct entry *registry_entry(const struct registry *r, uint32_t id)
{
	if (id < r->first || id >= registry_end(r))
		return NULL;
	return atomic_load_explicit(&r->entries[id - r->first], memory_order_acquire);
}

const struct registry_event *registry_get(const struct registry *r, uint32_t id)
{
	const struct entry *e = registry_entry(r, id);

	return e ? &e->event : NULL;
}

static uint32_t *registry_bucket(const struct registry *r, uint64_t hash)
{
	return &r->buckets[(hash ^ hash >> 32) & (N_BUCKETS - 1)];
}

const struct registry_event *registry_find(
	const struct registry *r, const struct wire_event *layout)
{
	uint64_t hash = wire_event_hash(layout);
	const struct entry *e;

	for (uint32_t id = *registry_bucket(r, hash); id != 0; id = e->chain) {
		e = registry_entry(r, id);
		if (e->hash == hash && wire_event_equal(e->event.layout, layout))
			return &e->event;
	}
	return NULL;
}

int registry_add(
	struct registry *r, struct wire_event *layout_take, const struct registry_event **ret)
{
	uint32_t id = registry_end(r), *bucket;
	struct entry *e;

	if (id >= CONTROL_N_WORDS)
		return -ENOSPC;
	e = calloc(1, sizeof(*e));
	if (!e)
		return -ENOMEM;
	e->event = (struct registry_event){ .id = id, .layout = layout_take };
	e->hash = wire_event_hash(layout_take);
	bucket = registry_bucket(r, e->hash);
	e->chain = *bucket;
	*bucket = id;
	atomic_store_explicit(&r->entries[id - r->first], e, memory_order_release);
	atomic_store_explicit(&r->end, id + 1, memory_order_release);
	*ret = &e->event;
	return 0;
}
