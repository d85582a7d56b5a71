/* SPDX-License-Identifier: MIT */
/* What a process needs: see need.h. */

#include "daemon/daemon.h"
#include "daemon/memory/need.h"
#include "daemon/memory/retire.h"
#include "daemon/programs/process.h"
#include "daemon/session.h"

#define NS_PER_S     UINT64_C(1000000000)
#define BURST_MIN_NS (NS_PER_S / 4) /* what comes in less is not multiplied up to a second */
#define AHEAD_S	     2		    /* seconds of writing that a pool should have room for */

/*
 * Bytes per second: rises at once, falls with the window, for who wrote a lot at once may do so again
 * within it, and should then find room instead of its own past.
 */
static void rate_update(
	struct pool_channel_books *b, uint64_t switched, uint64_t dt_ns, uint64_t window_ns)
{
	uint64_t dt = dt_ns < NS_PER_S ? dt_ns : NS_PER_S, rate;

	if (dt > window_ns)
		dt = window_ns;
	if (switched > SESSION_BUDGET_MAX)
		switched = SESSION_BUDGET_MAX;
	b->burst_bytes += switched;
	b->burst_ns += dt;
	rate = (uint64_t)((double)b->burst_bytes * (double)NS_PER_S /
			  (double)(b->burst_ns > BURST_MIN_NS ? b->burst_ns : BURST_MIN_NS));
	if (b->burst_ns >= NS_PER_S)
		b->burst_bytes = b->burst_ns = 0;
	b->rate -= (uint64_t)((double)b->rate * (double)dt / (double)window_ns);
	if (b->rate < rate)
		b->rate = rate;
}

struct look {
	struct process *process;
	struct session *session;
	struct process_channel *tally;
	struct pool_view *view;
	struct pool_channel_books *books;
	uint64_t now, window; /* trace clock */
	struct grant_result *result;
};

static void expires_at(struct look *l, uint64_t at)
{
	uint64_t ns = at > l->now ? clock_ns_of(&l->session->daemon->clock, at - l->now) : 0;

	if (ns < l->result->next_ns)
		l->result->next_ns = ns;
}

/* Takes a finished sub-buffer back that nobody asked to keep. */
static void age_retired(struct look *l, uint32_t i)
{
	struct sub_view *s = &l->view->subs[i];
	struct pool *pool = l->process->pool;
	uint64_t n;

	if (pool->readers > 0)
		return;
	n = pool_view_records(l->view, pool, i);
	if (pool_reclaim(pool, s->idx, s->state) != 0)
		return;
	l->tally->aged += n;
	l->view->bytes_data -= s->size;
	s->use = SUB_USE_ODD;
	l->result->pending = true;
}

/* Puts the stream of a current sub-buffer up for retirement, if it can be. */
static void age_current(struct look *l, const struct sub_view *s)
{
	uint32_t stream = state_cpu(s->state);
	uint64_t pos;

	if (stream >= l->process->n_streams || l->process->pool->readers > 0)
		return;
	if (l->now < l->books->retire_at) {
		expires_at(l, l->books->retire_at);
		return;
	}
	pos = l->books->seen[stream];
	if (geometry_idx(&l->process->pool->ring.geometry, pos_off(pos)) != s->idx)
		return;
	retire_add(l->session->daemon, l->process, l->session->channel, stream, pos);
	l->result->pending = true;
}

static bool view_has_expired(const struct look *l)
{
	for (uint32_t i = 0; i < l->view->n; i++)
		if (l->view->subs[i].use == SUB_USE_RETIRED &&
			l->now - l->view->subs[i].last_ts >= l->window)
			return true;
	return false;
}

static void age(struct look *l)
{
	/* The oldest first: what is left of a stream then tells how many records went. */
	if (view_has_expired(l))
		pool_view_sort_by_age(l->view);
	for (uint32_t i = 0; i < l->view->n; i++) {
		struct sub_view *s = &l->view->subs[i];

		if (s->use != SUB_USE_RETIRED && s->use != SUB_USE_BUSY)
			continue;
		if (l->now - s->last_ts < l->window)
			expires_at(l, s->last_ts + l->window);
		else if (s->use == SUB_USE_RETIRED)
			age_retired(l, i);
		else if (state_kind(s->state) == SUB_ACTIVE)
			age_current(l, s);
	}
}

static uint32_t count_busy(const struct pool_view *v)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < v->n; i++)
		n += v->subs[i].use == SUB_USE_BUSY;
	return n;
}

static uint32_t count_advance(const struct pool_view *v)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < v->n; i++)
		n += v->subs[i].use == SUB_USE_PROMISED && v->subs[i].size == GRANT_LARGE;
	return n;
}

int need_measure(struct process *p, struct session *s, struct pool_view *view, uint64_t dt_ns,
	struct need *ret, struct grant_result *result)
{
	struct daemon *d = s->daemon;
	struct pool *pool = p->pool;
	struct pool_channel_books *b = &pool->channel[s->channel];
	struct look l = {
		.process = p,
		.session = s,
		.tally = process_tally(p, s),
		.view = view,
		.books = b,
		.now = clock_now(&d->clock),
		.window = clock_ticks_of(&d->clock, s->window_ns),
		.result = result,
	};
	uint64_t ahead;
	uint32_t advance;
	int r;

	r = pool_view_take(view, pool, s->channel, l.now, true);
	if (r < 0)
		return r;
	result->moved |= view->moved;
	result->switched |= view->began;
	rate_update(b, view->switched, dt_ns, s->window_ns);
	if (view->moved)
		b->moved_at = l.now;
	else if (l.now - b->moved_at >= l.window)
		b->rate = 0;
	else if (b->rate > 0)
		expires_at(&l, b->moved_at + l.window);
	age(&l);

	advance = count_advance(view);
	*ret = (struct need){
		.live = b->charged - b->going - (uint64_t)advance * GRANT_LARGE,
		.advance = advance,
		.n_subs = b->n_subs,
		.n_subs_min = 2 * count_busy(view),
		.data = view->bytes_data,
		.growing = view->switched > 0,
		.idle = view->bytes_data == 0 && b->rate == 0 && view->bytes_spare > 0,
		.starving = view->switched > 0 && view->bytes_spare == 0,
	};
	ahead = b->rate * AHEAD_S;
	if (ahead < 2 * GRANT_SMALL)
		ahead = 2 * GRANT_SMALL;
	if (ret->starving && ahead < view->bytes_data)
		ahead = view->bytes_data;
	ret->need = view->bytes_data + ahead;
	if (ret->need > s->budget)
		ret->need = s->budget;
	ret->floor = daemon_minimum(d);
	if (ret->floor < (uint64_t)ret->n_subs_min * GRANT_SMALL)
		ret->floor = (uint64_t)ret->n_subs_min * GRANT_SMALL;
	return 0;
}
