/* SPDX-License-Identifier: MIT */
/* Processes and what they did in each session: see process.h. How they die is in burial.c. */

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "daemon/daemon.h"
#include "daemon/memory/room.h"
#include "daemon/programs/burial.h"
#include "daemon/programs/process.h"
#include "daemon/session.h"

/* --- counts --------------------------------------------------------------------------------------- */

static uint64_t stream_records(const struct process *p, uint32_t ch, uint32_t stream, uint64_t *pos)
{
	const struct process_channel *t = p->channel[ch];

	if (p->pool)
		return ring_stream_records(&p->pool->ring, ch, stream, pos);
	if (pos)
		*pos = 0;
	return t && t->final_n ? t->final_n[stream] : 0;
}

static uint64_t channel_records(const struct process *p, uint32_t ch)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < p->n_streams; i++)
		n += stream_records(p, ch, i, NULL);
	return n;
}

static void channel_lost(const struct process *p, uint32_t ch, uint64_t ret[N_LOST_REASONS])
{
	if (p->pool) {
		memset(ret, 0, N_LOST_REASONS * sizeof(ret[0]));
		for (uint32_t i = 0; i < p->n_streams; i++)
			ring_stream_lost(&p->pool->ring, ch, i, ret);
	} else {
		memcpy(ret, p->channel[ch]->final_lost, N_LOST_REASONS * sizeof(ret[0]));
	}
}

struct process_channel *process_tally(const struct process *p, const struct session *s)
{
	struct process_channel *t = p->channel[s->channel];

	return t && t->serial == s->serial ? t : NULL;
}

uint64_t process_records(
	const struct process *p, const struct session *s, uint32_t stream, uint64_t *ret_pos)
{
	return stream_records(p, s->channel, stream, ret_pos);
}

/* The program can set its counts back; then it has recorded nothing. */
static uint64_t minus(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

uint64_t process_committed(const struct process *p, const struct session *s)
{
	const struct process_channel *t = process_tally(p, s);

	return t ? minus(channel_records(p, s->channel), t->base) : 0;
}

void process_lost(
	const struct process *p, const struct session *s, uint64_t ret_lost[N_LOST_REASONS])
{
	const struct process_channel *t = process_tally(p, s);

	memset(ret_lost, 0, N_LOST_REASONS * sizeof(ret_lost[0]));
	if (!t)
		return;
	channel_lost(p, s->channel, ret_lost);
	for (int i = 0; i < N_LOST_REASONS; i++)
		ret_lost[i] = minus(ret_lost[i], t->lost_base[i]);
}

uint64_t process_used(const struct process *p, const struct session *s)
{
	const struct process_channel *t = process_tally(p, s);

	uint64_t bytes = t ? t->store_bytes : 0;

	if (t && p->pool)
		bytes += p->pool->channel[s->channel].charged -
			 pool_promised_bytes(p->pool, s->channel);
	return bytes;
}

/* --- life ----------------------------------------------------------------------------------------- */

/*
 * A program that executes another, or has two copies of libvarve, has more than one pool, and which
 * of them are still in use is not to be known. Without end it must not go on: the oldest goes to
 * the dead, with its data.
 */
static void pools_of_pid_limit(struct daemon *d, pid_t pid)
{
	struct process *p, *oldest = NULL;
	uint32_t n = 0;

	list_for_each(p, &d->processes, struct process, link) {
		if (!p->alive || p->pid != pid)
			continue;
		if (n++ == 0)
			oldest = p;
	}
	if (n >= PROCESS_POOLS_MAX)
		burial_died(oldest);
}

int process_new(struct daemon *d, const struct process_identity *id, const struct wire_hello *h,
	const char *exe, size_t exe_len, struct process **ret)
{
	struct process *p;
	struct session *s;
	int r;

	pools_of_pid_limit(d, id->pid);
	r = account_charge(&d->accounts, id->uid, CHARGE_PROCESSES, 1);
	if (r < 0)
		return r;
	p = calloc(1, sizeof(*p));
	r = p ? pool_new(d, h->room, h->mode == RING_LOCK ? RING_LOCK : RING_RSEQ, &p->pool)
	      : -ENOMEM;
	if (r < 0) {
		free(p);
		account_return(&d->accounts, id->uid, CHARGE_PROCESSES, 1);
		return r;
	}
	p->daemon = d;
	p->serial = ++d->next_process;
	p->pid = id->pid;
	p->ppid = h->ppid;
	p->uid = id->uid;
	p->alive = true;
	p->started_at = clock_now(&d->clock);
	p->n_streams = p->pool->ring.geometry.n_streams;
	text_clean(p->name, h->name, sizeof(p->name) - 1);
	if (exe_len > 0)
		p->exe = malloc(exe_len + 1);
	if (p->exe)
		text_clean(p->exe, exe, exe_len);
	list_append(&d->processes, &p->link);
	r = burial_watch(p, id->pidfd);
	if (r < 0) {
		process_free(p);
		return r;
	}
	list_for_each(s, &d->sessions, struct session, link)
		if (s->active)
			process_join(p, s);
	*ret = p;
	return 0;
}

struct process *process_find(const struct daemon *d, pid_t pid, uint64_t cookie)
{
	struct process *p;

	list_for_each(p, &d->processes, struct process, link)
		if (p->alive && p->pid == pid && p->pool && p->pool->ring.cookie == cookie)
			return p;
	return NULL;
}

int process_join(struct process *p, struct session *s)
{
	struct pool_header *h = ring_header(&p->pool->ring);
	struct process_channel *t = p->channel[s->channel];
	uint32_t bit = 1u << s->channel;

	if (!t) {
		t = calloc(1, sizeof(*t));
		if (!t)
			return -ENOMEM;
		p->channel[s->channel] = t;
	}
	if (t->serial != s->serial) {
		memset(t, 0, sizeof(*t));
		t->serial = s->serial;
		t->base = channel_records(p, s->channel);
		channel_lost(p, s->channel, t->lost_base);
	}
	room_minimum(p, s);
	if (s->mode == SESSION_FLIGHT)
		atomic_fetch_or_explicit(&h->flight, bit, memory_order_release);
	else
		atomic_fetch_and_explicit(&h->flight, ~bit, memory_order_release);
	atomic_fetch_or_explicit(&h->channels, bit, memory_order_release);
	return 0;
}

void process_leave(struct process *p, struct session *s)
{
	atomic_fetch_and_explicit(
		&ring_header(&p->pool->ring)->channels, ~(1u << s->channel), memory_order_release);
}

void process_drop_pool(struct process *p)
{
	uint64_t *n;

	for (uint32_t ch = 0; ch < POOL_N_CHANNELS; ch++) {
		struct process_channel *t = p->channel[ch];

		if (!t)
			continue;
		channel_lost(p, ch, t->final_lost);
		/* Without memory for it the counts are lost, and with them only the numbers in a
		 * report; the data are in the store. */
		n = calloc(p->n_streams, sizeof(*n));
		for (uint32_t i = 0; n && i < p->n_streams; i++)
			n[i] = stream_records(p, ch, i, NULL);
		t->final_n = n;
	}
	pool_free(p->daemon, p->pool);
	p->pool = NULL;
}

/* What it did still counts in the sums of the sessions. */
static void totals_keep(struct process *p)
{
	struct session *s;

	list_for_each(s, &p->daemon->sessions, struct session, link) {
		uint64_t lost[N_LOST_REASONS];

		s->past_events += process_committed(p, s);
		process_lost(p, s, lost);
		for (int i = 0; i < N_LOST_REASONS; i++)
			s->past_lost[i] += lost[i];
	}
}

void process_free(struct process *p)
{
	struct daemon *d = p->daemon;

	burial_unwatch(p);
	if (p->pool) {
		pool_free(d, p->pool);
		p->pool = NULL;
	}
	if (p->alive)
		account_return(&d->accounts, p->uid, CHARGE_PROCESSES, 1);
	for (uint32_t ch = 0; ch < POOL_N_CHANNELS; ch++) {
		if (p->channel[ch])
			free(p->channel[ch]->final_n);
		free(p->channel[ch]);
	}
	list_remove(&p->link);
	free(p->exe);
	free(p);
}

void process_discard(struct process *p)
{
	if (!p->alive)
		return;
	/* A snapshot may have it in hand already: then it ends like any other. */
	if (p->refs == 0)
		process_free(p);
	else
		burial_died(p);
}

bool process_forget(struct process *p)
{
	if (p->alive || p->pool || p->refs > 0)
		return false;
	totals_keep(p);
	process_free(p);
	return true;
}

/* --- references ----------------------------------------------------------------------------------- */

struct process *process_ref(struct process *p)
{
	p->refs++;
	return p;
}

struct process *process_unref(struct process *p)
{
	assert(p->refs > 0);
	p->refs--;
	return NULL;
}

struct pool *process_hold_pool(struct process *p)
{
	if (!p->pool)
		return NULL;
	process_ref(p);
	p->pool->readers++;
	return p->pool;
}

void process_release_pool(struct process *p)
{
	assert(p->pool && p->pool->readers > 0);
	p->pool->readers--;
	if (!p->alive)
		burial_resume(p->daemon);
	process_unref(p);
}
