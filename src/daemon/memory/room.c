/* SPDX-License-Identifier: MIT */
/* Memory at once: see room.h. */

#include "daemon/daemon.h"
#include "daemon/memory/grant.h"
#include "daemon/memory/pool-view.h"
#include "daemon/memory/room.h"
#include "daemon/programs/process.h"
#include "daemon/programs/store.h"
#include "daemon/session.h"

#define ADVANCE_PART 16 /* a newcomer gets this part of what is free, at most */

/* The living process that holds most of the session, if that is worth taking from. */
static struct process *session_loudest(const struct session *s)
{
	uint64_t most = 2 * daemon_minimum(s->daemon);
	struct process *p, *best = NULL;

	list_for_each(p, &s->daemon->processes, struct process, link) {
		const struct pool_channel_books *b = p->pool ? &p->pool->channel[s->channel] : NULL;

		if (b && p->alive && p->pool->readers == 0 && b->charged - b->going > most) {
			most = b->charged - b->going;
			best = p;
		}
	}
	return best;
}

/* Takes a spare sub-buffer back and punches it, or else the oldest finished one. */
static bool take_from_view(struct daemon *d, struct pool *pool, const struct pool_view *v)
{
	for (uint32_t i = v->n; i-- > 0;) {
		const struct sub_view *sub = &v->subs[i];
		bool spare = sub->use == SUB_USE_SPARE ||
			     (sub->use == SUB_USE_PROMISED && sub->size == GRANT_LARGE);

		if (spare && pool_revoke(pool, sub->idx) == 0) {
			pool_punch_one(d, pool, sub->idx);
			return true;
		}
	}
	for (uint32_t i = 0; i < v->n && v->subs[i].use == SUB_USE_RETIRED; i++) {
		if (pool_reclaim(pool, v->subs[i].idx, v->subs[i].state) == 0) {
			pool_punch_one(d, pool, v->subs[i].idx);
			return true;
		}
	}
	return false;
}

static bool take_one(struct session *s, struct process *p)
{
	struct daemon *d = s->daemon;
	struct pool_view v = { 0 };
	bool taken = false;

	if (pool_view_take(&v, p->pool, s->channel, clock_now(&d->clock), false) == 0) {
		pool_view_sort_by_age(&v);
		taken = take_from_view(d, p->pool, &v);
	}
	pool_view_fini(&v);
	return taken;
}

struct most {
	uid_t uid;
	uint64_t used;
};

static void most_visit(void *arg, uid_t uid, uint64_t used)
{
	struct most *m = arg;

	if (used > m->used)
		*m = (struct most){ uid, used };
}

/* Drops of the uid whose dead hold most. */
static bool drop_oldest(struct session *s, uint64_t bytes)
{
	struct most most = { 0 };

	store_parties(s->store, most_visit, &most);
	return most.used > 0 && store_drop_oldest(s->store, most.uid, bytes) > 0;
}

bool room_make(struct session *s, uint64_t bytes)
{
	bool more = true;

	while (session_free_bytes(s) < bytes && more) {
		struct process *loud = session_loudest(s);

		if (store_used(s->store) > s->budget / 2)
			more = drop_oldest(s, bytes);
		else
			more = (loud && take_one(s, loud)) || drop_oldest(s, bytes);
	}
	return session_free_bytes(s) >= bytes;
}

void room_minimum(struct process *p, struct session *s)
{
	struct pool_channel_books *b = &p->pool->channel[s->channel];
	uint64_t advance;

	while (b->charged - b->going < daemon_minimum(s->daemon)) {
		/* With many sessions the small ones are used up. */
		bool small =
			room_make(s, GRANT_SMALL) && pool_give(s->daemon, p->pool, s, 0, true) == 0;

		if (!small && (!room_make(s, GRANT_LARGE) ||
				      pool_give(s->daemon, p->pool, s, 1, true) < 0))
			return; /* its events are counted as lost until a tick finds memory */
	}
	/* A little of what is there, for others may come too. */
	advance = session_free_bytes(s) / ADVANCE_PART / GRANT_LARGE;
	grant_advance(s, p->pool, advance < s->advance ? (uint32_t)advance : s->advance);
}
