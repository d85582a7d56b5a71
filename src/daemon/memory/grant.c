/* SPDX-License-Identifier: MIT */
/*
 * Moving memory: see grant.h. One tick, per active session:
 *
 *   punch what the tick before took back    now it costs nothing
 *   measure each living process             (need.c) aged data go
 *   share the budget less the reserve       (balance.c)
 *   take from who has more than its share   spare memory first, then the oldest data
 *   give to who has less                    at most what is free now; the rest when it is punched
 *   promise an advance to all               of what is left
 *
 * Invariant: charged + store <= budget, always; every give looks before it gives.
 */

#include <errno.h>
#include <stdlib.h>

#include "daemon/daemon.h"
#include "daemon/memory/balance.h"
#include "daemon/memory/grant.h"
#include "daemon/memory/need.h"
#include "daemon/memory/pool-view.h"
#include "daemon/memory/retire.h"
#include "daemon/programs/burial.h"
#include "daemon/programs/process.h"
#include "daemon/programs/store.h"
#include "daemon/session.h"

#define SMALL	       GRANT_SMALL
#define LARGE	       GRANT_LARGE
#define LARGE_FROM     (3 * LARGE) /* a share from which on a pool gets large sub-buffers */
#define RESERVE_LARGE  2
#define RESERVE_MINIMA 16
#define TAKE_MAX       256u /* sub-buffers of all pools of a session, per tick */
#define GIVE_MAX       1024u
#define AUDIT_NS       UINT64_C(500000000)

struct party {
	struct process *process; /* NULL: the dead of a uid */
	uid_t uid;
	struct need need;
	uint64_t share;
	bool full; /* nothing more to be given */
};

struct grant {
	struct pool_view view;
	struct party *parties;	       /* owned, reused */
	struct balance_party *numbers; /* owned, likewise */
	size_t n, room;
	uint64_t last_tick, last_audit; /* trace clock */
};

int grant_init(struct daemon *d)
{
	d->grant = calloc(1, sizeof(*d->grant));
	return d->grant ? 0 : -ENOMEM;
}

void grant_fini(struct daemon *d)
{
	if (!d->grant)
		return;
	pool_view_fini(&d->grant->view);
	free(d->grant->parties);
	free(d->grant->numbers);
	free(d->grant);
	d->grant = NULL;
}

uint64_t grant_reserve(const struct daemon *d)
{
	return RESERVE_LARGE * LARGE + RESERVE_MINIMA * daemon_minimum(d);
}

/* --- parties -------------------------------------------------------------------------------------- */

static struct party *party_add(struct grant *g)
{
	if (g->n == g->room) {
		size_t room = g->room ? g->room * 2 : 64;
		struct party *parties = realloc(g->parties, room * sizeof(*parties));
		struct balance_party *numbers;

		if (!parties)
			return NULL;
		g->parties = parties;
		numbers = realloc(g->numbers, room * sizeof(*numbers));
		if (!numbers)
			return NULL;
		g->numbers = numbers;
		g->room = room;
	}
	g->parties[g->n] = (struct party){ 0 };
	return &g->parties[g->n++];
}

static struct party *party_of_dead(struct grant *g, uid_t uid)
{
	struct party *y;

	for (size_t i = 0; i < g->n; i++)
		if (!g->parties[i].process && g->parties[i].uid == uid)
			return &g->parties[i];
	y = party_add(g);
	if (y)
		y->uid = uid;
	return y;
}

static void party_add_dead(void *grant, uid_t uid, uint64_t bytes)
{
	struct party *y = bytes ? party_of_dead(grant, uid) : NULL;

	if (y) {
		y->need.need += bytes;
		y->need.live += bytes;
	}
}

/* Measures everybody who takes part in the session. */
static void parties_measure(
	struct grant *g, struct session *s, uint64_t dt_ns, struct grant_result *result)
{
	struct process *p;

	g->n = 0;
	list_for_each(p, &s->daemon->processes, struct process, link) {
		struct party *y;

		if (!p->pool || !process_tally(p, s))
			continue;
		if (!p->alive) {
			party_add_dead(g, p->uid, p->pool->channel[s->channel].charged);
			continue;
		}
		y = party_add(g);
		if (!y || need_measure(p, s, &g->view, dt_ns, &y->need, result) < 0) {
			g->n -= y != NULL;
			continue;
		}
		y->process = p;
		y->uid = p->uid;
	}
	store_parties(s->store, party_add_dead, g);
}

static void parties_balance(struct grant *g, const struct session *s)
{
	uint64_t reserve = grant_reserve(s->daemon);
	uint64_t total = s->budget > reserve ? s->budget - reserve : 0;

	for (size_t i = 0; i < g->n; i++) {
		const struct party *y = &g->parties[i];

		g->numbers[i] = (struct balance_party){
			.need = y->need.need,
			.floor = y->need.floor,
			.uid = y->uid,
			.dead = !y->process,
		};
	}
	if (s->daemon->uid_share < 100)
		balance_uid_limit(g->numbers, g->n, total / 100 * s->daemon->uid_share);
	balance_fill(g->numbers, g->n, total);
	for (size_t i = 0; i < g->n; i++)
		g->parties[i].share = g->numbers[i].share;
}

/* --- taking --------------------------------------------------------------------------------------- */

/* Takes spare memory, as long as the party has more than its share; not of the advance. Half a
 * sub-buffer more is let be, or one would be taken and given again for ever. */
static void take_spare(struct grant *g, struct party *y, uint32_t size)
{
	struct pool *pool = y->process->pool;

	for (uint32_t i = 0; i < g->view.n; i++) {
		const struct sub_view *v = &g->view.subs[i];

		if (y->need.live < y->share + size / 2 && !y->need.idle)
			return;
		if (v->size != size ||
			(v->use != SUB_USE_SPARE &&
				(v->use != SUB_USE_PROMISED || size == LARGE)) ||
			y->need.n_subs <= y->need.n_subs_min)
			continue;
		if (pool_revoke(pool, v->idx) == 0) {
			y->need.live -= size;
			y->need.n_subs--;
		}
	}
}

/* Takes the oldest data, where data alone are more than the share. */
static uint32_t take_data(struct grant *g, struct party *y, uint32_t max)
{
	struct pool *pool = y->process->pool;
	uint32_t n = 0;

	for (uint32_t i = 0; i < g->view.n && n < max; i++) {
		const struct sub_view *v = &g->view.subs[i];

		if (v->use != SUB_USE_RETIRED || y->need.data < y->share + v->size / 2 ||
			y->need.n_subs <= y->need.n_subs_min)
			break;
		if (pool_reclaim(pool, v->idx, v->state) != 0)
			continue; /* its writer took it first */
		y->need.live -= v->size;
		y->need.data -= v->size;
		y->need.n_subs--;
		n++;
	}
	return n;
}

static uint32_t take_from(struct grant *g, struct session *s, struct party *y, uint32_t max)
{
	struct pool *pool;
	uint64_t over = y->need.live > y->share ? y->need.live - y->share : 0;

	if (over == 0 && !y->need.idle)
		return 0;
	if (!y->process) {
		store_drop_oldest(s->store, y->uid, over);
		return 1;
	}
	pool = y->process->pool;
	if (pool_view_take(&g->view, pool, s->channel, clock_now(&s->daemon->clock), false) < 0)
		return 0;
	pool_view_sort_by_age(&g->view);
	take_spare(g, y, LARGE);
	take_spare(g, y, SMALL);
	/* Who gets all that it needs keeps its data: what it has too much of is spare, if less than one
	 * sub-buffer. What a snapshot is about to copy stays where it is. */
	return y->share >= y->need.need || pool->readers > 0 ? 0 : take_data(g, y, max);
}

/* --- giving --------------------------------------------------------------------------------------- */

/* Gives one sub-buffer, if the party should have more and the budget has it. */
static bool give_one(struct session *s, struct party *y)
{
	struct need *n = &y->need;
	bool below_floor = n->live < n->floor;
	uint64_t reserve = below_floor ? 0 : grant_reserve(s->daemon);
	uint64_t free_bytes = session_free_bytes(s);
	uint32_t class = !below_floor && y->share >= LARGE_FROM;
	uint32_t size = class ? LARGE : SMALL;
	bool promise = below_floor && !n->growing;

	if (n->live + size > y->share || free_bytes < reserve + size)
		return false;
	if (pool_give(s->daemon, y->process->pool, s, class, promise) < 0) {
		/* The class is used up. */
		class = !class;
		size = class ? LARGE : SMALL;
		if (n->live + size > y->share || free_bytes < reserve + size ||
			pool_give(s->daemon, y->process->pool, s, class, promise) < 0)
			return false;
	}
	n->live += size;
	n->n_subs++;
	return true;
}

/* One each in turn, so that nobody waits for the greedy. Returns whether somebody who writes got
 * something. */
static bool give_all(struct grant *g, struct session *s)
{
	bool grown = false, given = true;
	uint32_t n = 0;

	while (given && n < GIVE_MAX) {
		given = false;
		for (size_t i = 0; i < g->n && n < GIVE_MAX; i++) {
			struct party *y = &g->parties[i];

			if (!y->process || y->full)
				continue;
			y->full = !give_one(s, y);
			if (y->full)
				continue;
			given = true;
			n++;
			grown |= y->need.starving;
		}
	}
	return grown;
}

/* Whether somebody should have more, and would as soon as memory under way has come. */
static bool somebody_waits(const struct grant *g, const struct session *s)
{
	for (size_t i = 0; i < g->n; i++) {
		const struct party *y = &g->parties[i];
		uint32_t size = y->share >= LARGE_FROM ? LARGE : SMALL;

		if (y->process && y->need.live + size <= y->share)
			return true;
	}
	return false;
}

/* --- the advance ---------------------------------------------------------------------------------- */

/* How many large sub-buffers each may have promised of what nobody needs. */
static uint32_t advance_of(const struct grant *g, const struct session *s)
{
	uint64_t total = s->budget - grant_reserve(s->daemon), n = 0;

	for (size_t i = 0; i < g->n; i++) {
		total -= g->parties[i].share < total ? g->parties[i].share : total;
		n += g->parties[i].process != NULL;
	}
	/* Half of it: who grows takes from the rest at once. */
	n = total / 2 / (n ? n : 1) / LARGE;
	return n < GRANT_ADVANCE_MAX ? (uint32_t)n : GRANT_ADVANCE_MAX;
}

void grant_advance(struct session *s, struct pool *pool, uint32_t n)
{
	while (n > 0 && session_free_bytes(s) >= grant_reserve(s->daemon) + LARGE &&
		pool_give(s->daemon, pool, s, 1, true) == 0)
		n--;
}

static void advance_all(struct grant *g, struct session *s)
{
	s->advance = advance_of(g, s);
	for (size_t i = 0; i < g->n; i++) {
		struct party *y = &g->parties[i];

		if (!y->process)
			continue;
		if (y->need.advance > s->advance)
			pool_revoke_promised(
				y->process->pool, s->channel, 1, y->need.advance - s->advance);
		else
			grant_advance(s, y->process->pool, s->advance - y->need.advance);
	}
}

/* --- a session's tick ----------------------------------------------------------------------------- */

static uint64_t session_going(const struct session *s)
{
	struct process *p;
	uint64_t n = 0;

	list_for_each(p, &s->daemon->processes, struct process, link)
		if (p->pool)
			n += p->pool->channel[s->channel].going;
	return n;
}

static void store_age(struct session *s, struct grant_result *result)
{
	const struct clock_state *c = &s->daemon->clock;
	uint64_t now = clock_now(c), window = clock_ticks_of(c, s->window_ns), oldest, ns;

	if (now > window)
		store_drop_older(s->store, now - window);
	oldest = store_oldest(s->store);
	if (oldest == UINT64_MAX)
		return;
	ns = oldest + window > now ? clock_ns_of(c, oldest + window - now) : 0;
	if (ns < result->next_ns)
		result->next_ns = ns;
}

static void session_tick(struct session *s, uint64_t dt_ns, struct grant_result *result)
{
	struct grant *g = s->daemon->grant;
	uint32_t max = TAKE_MAX;
	uint64_t going;

	store_age(s, result);
	parties_measure(g, s, dt_ns, result);
	parties_balance(g, s);
	for (size_t i = 0; i < g->n && max > 0; i++)
		max -= take_from(g, s, &g->parties[i], max);
	result->hungry |= give_all(g, s);
	advance_all(g, s);
	result->plenty |= s->advance > 0;
	going = session_going(s);
	result->pending |= going > 0;
	result->hungry |= going > 0 && somebody_waits(g, s);
}

/* --- sessions that record no more ----------------------------------------------------------------- */

/* Takes back what nobody will use; of a destroyed session everything. */
static void pool_drain(struct session *s, struct process *p, struct grant_result *result)
{
	struct pool *pool = p->pool;
	struct pool_view *v = &s->daemon->grant->view;
	uint64_t now = clock_now(&s->daemon->clock);

	if (pool->channel[s->channel].charged == 0)
		return;
	if (pool_view_take(v, pool, s->channel, now, true) < 0)
		return;
	result->moved |= v->moved;
	for (uint32_t i = 0; i < v->n; i++) {
		const struct sub_view *sub = &v->subs[i];
		uint32_t stream = state_cpu(sub->state);

		if (sub->use == SUB_USE_SPARE || sub->use == SUB_USE_PROMISED)
			pool_revoke(pool, sub->idx);
		else if (s->destroyed && pool->readers == 0 && sub->use == SUB_USE_RETIRED)
			pool_reclaim(pool, sub->idx, sub->state);
		else if (s->destroyed && pool->readers == 0 && sub->use == SUB_USE_BUSY &&
			 !v->moved && stream < p->n_streams &&
			 now >= pool->channel[s->channel].retire_at)
			result->pending |= retire_add(s->daemon, p, s->channel, stream,
				pool->channel[s->channel].seen[stream]);
	}
	result->pending |= pool->channel[s->channel].going > 0;
}

static void session_drain(struct session *s, struct grant_result *result)
{
	struct process *p;

	list_for_each(p, &s->daemon->processes, struct process, link)
		if (p->alive && p->pool)
			pool_drain(s, p, result);
	if (s->destroyed && s->charged == 0)
		session_drained(s); /* s may be gone */
	else if (s->destroyed)
		result->next_ns = result->next_ns < UINT64_C(60000000000) ? result->next_ns
									  : UINT64_C(60000000000);
}

/* --- all ------------------------------------------------------------------------------------------ */

static void pools_punch(struct daemon *d, bool audit)
{
	struct process *p;

	list_for_each(p, &d->processes, struct process, link) {
		if (!p->pool)
			continue;
		if (p->pool->n_going > 0)
			pool_punch(d, p->pool);
		if (audit)
			pool_audit(p->pool);
	}
}

void grant_tick(struct daemon *d, struct grant_result *ret)
{
	uint64_t now = clock_now(&d->clock);
	uint64_t dt_ns = clock_ns_of(&d->clock, now - d->grant->last_tick);
	bool audit = clock_ns_of(&d->clock, now - d->grant->last_audit) >= AUDIT_NS;

	*ret = (struct grant_result){ .next_ns = UINT64_MAX };
	d->grant->last_tick = now;
	if (audit)
		d->grant->last_audit = now;
	pools_punch(d, audit);
	for (uint32_t ch = 0; ch < POOL_N_CHANNELS; ch++) {
		struct session *s = d->channels[ch];

		if (s && s->active)
			session_tick(s, dt_ns, ret);
		else if (s)
			session_drain(s, ret);
	}
	retire_start(d);
	ret->pending |= retire_busy(d);
	burial_forget_old(d, now);
}
