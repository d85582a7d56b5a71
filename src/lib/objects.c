/* SPDX-License-Identifier: MIT */
#include <stdatomic.h>
#include <stddef.h>
#include "lib/control.h"
#include "lib/objects.h"
#include "wire/client.h"

/* Pointers of the list change by single stores: a fork from another thread sees it whole. */
static struct varve_object *objects;
static atomic_bool unsent;
static const uint32_t word_off;

/* reserved[0] of an object is the epoch that it was told to. */
static uint64_t told_epoch(const struct varve_object *o)
{
	return (uint64_t)(uintptr_t)o->reserved[0];
}

static void tell_epoch(struct varve_object *o, uint64_t epoch)
{
	o->reserved[0] = (void *)(uintptr_t)epoch;
}

static void set_word(struct varve_event *e, const uint32_t *word)
{
	__atomic_store_n(&e->word, word, __ATOMIC_RELEASE);
}

bool objects_add(struct varve_object *o)
{
	for (struct varve_object *other = objects; other; other = other->next)
		if (other->begin == o->begin)
			return false;
	tell_epoch(o, 0);
	o->next = objects;
	__atomic_store_n(&objects, o, __ATOMIC_RELEASE);
	atomic_store_explicit(&unsent, true, memory_order_release);
	return true;
}

void objects_remove(struct varve_object *o)
{
	for (struct varve_object **p = &objects; *p; p = &(*p)->next) {
		if (*p == o) {
			__atomic_store_n(p, o->next, __ATOMIC_RELEASE);
			return;
		}
	}
}

bool objects_unsent(void)
{
	return atomic_load_explicit(&unsent, memory_order_acquire);
}

void objects_await(void)
{
	const uint32_t *word = control_word(0);

	if (!word)
		return;
	for (struct varve_object *o = objects; o; o = o->next) {
		if (told_epoch(o))
			continue;
		for (struct varve_event **e = o->begin; e < o->end; e++)
			if (*e && (*e)->size >= sizeof(**e))
				set_word(*e, word);
	}
}

void objects_forget(void)
{
	atomic_store_explicit(&unsent, true, memory_order_release);
	for (struct varve_object *o = objects; o; o = o->next)
		tell_epoch(o, 0);
}

void objects_sent(uint64_t epoch)
{
	for (struct varve_object *o = objects; o; o = o->next)
		tell_epoch(o, epoch);
	atomic_store_explicit(&unsent, false, memory_order_release);
}

void objects_walk_init(struct objects_walk *w, uint64_t epoch)
{
	*w = (struct objects_walk){ .epoch = epoch, .object = objects };
	w->next = objects ? objects->begin : NULL;
}

static struct varve_event *walk_next(struct objects_walk *w)
{
	while (w->object) {
		struct varve_object *o = w->object;

		while (w->next < o->end && (told_epoch(o) == 0 || told_epoch(o) != w->epoch)) {
			struct varve_event *e = *w->next++;

			if (e && wire_event_write(e, NULL, 0) > 0)
				return e;
		}
		w->object = o->next;
		w->next = w->object ? w->object->begin : NULL;
	}
	return NULL;
}

const struct varve_event *objects_walk_next(struct objects_walk *w)
{
	return walk_next(w);
}

/* The id before the word: who sees the word sees the id. */
void objects_walk_assign(struct objects_walk *w, uint32_t id)
{
	struct varve_event *e = walk_next(w);
	const uint32_t *word = id ? control_word(id) : NULL;

	if (!e)
		return;
	__atomic_store_n(&e->id, word ? id : 0, __ATOMIC_RELEASE);
	set_word(e, word ? word : &word_off);
}

uint32_t objects_count(uint64_t epoch)
{
	struct objects_walk w;
	uint32_t n = 0;

	objects_walk_init(&w, epoch);
	while (walk_next(&w))
		n++;
	return n;
}
