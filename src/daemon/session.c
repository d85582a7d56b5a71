/* SPDX-License-Identifier: MIT */
/*
 * Sessions and the enable words: see session.h.
 *
 * Order at a start: minima are promised and flight bits set, then the processes' channel bits, then
 * the words, so an event that sees its bit finds memory. A stop goes the other way.
 *
 * The channel of a destroyed session is not used again before all its memory came back: the next
 * session's data would lie among the old ones.
 */

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/units.h"
#include "daemon/daemon.h"
#include "daemon/memory/grant.h"
#include "daemon/memory/tick.h"
#include "daemon/programs/process.h"
#include "daemon/programs/store.h"
#include "daemon/session.h"

struct session *session_find(const struct daemon *d, const char *name)
{
	struct session *s;

	list_for_each(s, &d->sessions, struct session, link)
		if (strcmp(s->name, name) == 0)
			return s;
	return NULL;
}

uint64_t session_used(const struct session *s)
{
	return s->charged + store_used(s->store);
}

uint64_t session_free_bytes(const struct session *s)
{
	uint64_t used = session_used(s);

	return used < s->budget ? s->budget - used : 0;
}

/* --- enable words --------------------------------------------------------------------------------- */

uint32_t session_word(const struct daemon *d, const struct wire_event *layout)
{
	struct session *s;
	uint32_t word = 0;

	list_for_each(s, &d->sessions, struct session, link)
		if (s->active && pattern_list_match(&s->rules, layout->provider, layout->name))
			word |= 1u << s->channel;
	return word;
}

static void words_update(struct daemon *d)
{
	for (uint32_t id = registry_first(d->registry); id < registry_end(d->registry); id++) {
		const struct registry_event *e = registry_get(d->registry, id);

		atomic_store_explicit(
			&d->rundir.words[id], session_word(d, e->layout), memory_order_release);
	}
}

/* --- rules ---------------------------------------------------------------------------------------- */

static int rules_add(
	struct pattern_list *l, const char *const *patterns, uint32_t n, bool off, char **ret_error)
{
	for (uint32_t i = 0; i < n; i++) {
		const char *why = NULL;
		struct pattern p;
		int r = pattern_parse(patterns[i], &p, &why);

		if (r == 0 && off && !p.on) {
			why = "disable takes patterns without '!'";
			r = -EINVAL;
		}
		if (r < 0) {
			*ret_error = text_format("pattern '%s': %s", patterns[i], why);
			return r;
		}
		if (off)
			p.on = false;
		r = pattern_list_add(l, &p);
		if (r < 0) {
			*ret_error = r == -E2BIG ? text_format("a session has at most %d patterns",
							   PATTERN_RULES_MAX)
						 : NULL;
			return r == -E2BIG ? -EINVAL : r;
		}
	}
	return 0;
}

/* All of the patterns or none. */
static int rules_change(
	struct session *s, const char *const *patterns, uint32_t n, bool off, char **ret_error)
{
	struct pattern_list l = { 0 };
	int r = 0;

	*ret_error = NULL;
	for (size_t i = 0; i < s->rules.n && r == 0; i++)
		r = pattern_list_add(&l, &s->rules.rules[i]);
	if (r == 0)
		r = rules_add(&l, patterns, n, off, ret_error);
	if (r < 0) {
		pattern_list_fini(&l);
		return r;
	}
	pattern_list_fini(&s->rules);
	s->rules = l;
	words_update(s->daemon);
	return 0;
}

int session_enable(struct session *s, const char *const *patterns, uint32_t n, char **ret_error)
{
	return rules_change(s, patterns, n, false, ret_error);
}

int session_disable(struct session *s, const char *const *patterns, uint32_t n, char **ret_error)
{
	return rules_change(s, patterns, n, true, ret_error);
}

/* --- life ----------------------------------------------------------------------------------------- */

uint64_t session_budget_min(const struct daemon *d)
{
	struct process *p;
	uint64_t n = 0;

	list_for_each(p, &d->processes, struct process, link)
		n += p->alive && p->pool;
	return grant_reserve(d) + n * daemon_minimum(d);
}

static bool name_valid(const char *name)
{
	size_t n =
		strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");

	return n > 0 && n <= SESSION_NAME_MAX && name[n] == '\0' && name[0] != '.' &&
	       name[0] != '-';
}

/* 0, or -errno and one line. */
static int options_check(
	const struct daemon *d, const struct session_options *o, uint64_t budget, char **ret_error)
{
	char a[UNITS_FORMAT_MAX], b[UNITS_FORMAT_MAX];
	uint64_t min = session_budget_min(d);

	if (!name_valid(o->name)) {
		*ret_error = text_format(
			"'%.80s' is no name for a session: 1 to %u letters, digits, '.', "
			"'_', '-', not first '.' or '-'",
			o->name, SESSION_NAME_MAX);
		return -EINVAL;
	}
	if (session_find(d, o->name)) {
		*ret_error =
			text_format("there is a session '%s' already ('varve destroy %s' ends it)",
				o->name, o->name);
		return -EEXIST;
	}
	if (budget > SESSION_BUDGET_MAX) {
		*ret_error = text_format("a budget of %s is above the maximum of %s",
			units_size_format(a, budget), units_size_format(b, SESSION_BUDGET_MAX));
		return -EINVAL;
	}
	if (budget < min) {
		*ret_error =
			text_format("a budget of %s is below the minimum of %s now (%llu bytes: "
				    "a reserve, and %llu for each running process)",
				units_size_format(a, budget), units_size_format(b, min),
				(unsigned long long)min, (unsigned long long)daemon_minimum(d));
		return -EINVAL;
	}
	return 0;
}

static int channel_alloc(struct daemon *d, struct session *s, char **ret_error)
{
	for (uint32_t ch = 0; ch < POOL_N_CHANNELS; ch++) {
		if (!d->channels[ch]) {
			d->channels[ch] = s;
			s->channel = ch;
			return 0;
		}
	}
	*ret_error =
		text_format("all %u channels are taken: destroy a session first", POOL_N_CHANNELS);
	return -ENOSPC;
}

static void session_free(struct session *s)
{
	s->daemon->channels[s->channel] = NULL;
	store_free(s->store);
	pattern_list_fini(&s->rules);
	free(s->name);
	free(s);
}

int session_create(
	struct daemon *d, const struct session_options *o, struct session **ret, char **ret_error)
{
	static const char *const all[] = { "*:*" };
	uint64_t budget = o->budget ? o->budget : SESSION_BUDGET_DEFAULT;
	struct session *s;
	int r;

	*ret_error = NULL;
	r = options_check(d, o, budget, ret_error);
	if (r < 0)
		return r;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	*s = (struct session){
		.daemon = d,
		.serial = ++d->next_session,
		.name = strdup(o->name),
		.mode = o->mode,
		.budget = budget,
		.window_ns = o->window_ns ? o->window_ns : SESSION_WINDOW_DEFAULT,
		.refs = 1,
	};
	list_init(&s->link);
	r = rules_add(&s->rules, o->n_patterns ? o->patterns : all,
		o->n_patterns ? o->n_patterns : 1, false, ret_error);
	s->store = r == 0 ? store_new(s) : NULL;
	if (r == 0 && (!s->name || !s->store))
		r = -ENOMEM;
	if (r == 0)
		r = channel_alloc(d, s, ret_error);
	if (r < 0) {
		store_free(s->store);
		pattern_list_fini(&s->rules);
		free(s->name);
		free(s);
		return r;
	}
	list_append(&d->sessions, &s->link);
	s->started_at = clock_now(&d->clock);
	s->advance = GRANT_ADVANCE_MAX;
	r = session_start(s, ret_error);
	if (r < 0)
		return r;
	*ret = s;
	return 0;
}

int session_start(struct session *s, char **ret_error)
{
	struct daemon *d = s->daemon;
	struct process *p;

	*ret_error = NULL;
	if (s->active)
		return 0;
	s->active = true;
	s->stopped_at = 0;
	/* Who cannot be let in for lack of memory loses its events, counted; the others record. */
	list_for_each(p, &d->processes, struct process, link)
		if (p->alive && p->pool)
			process_join(p, s);
	words_update(d);
	tick_poke(d);
	return 0;
}

void session_stop(struct session *s)
{
	struct process *p;

	if (!s->active)
		return;
	s->active = false;
	s->stopped_at = clock_now(&s->daemon->clock);
	words_update(s->daemon);
	list_for_each(p, &s->daemon->processes, struct process, link)
		if (p->pool)
			process_leave(p, s);
}

void session_destroy(struct session *s)
{
	session_stop(s);
	s->destroyed = true;
	list_remove(&s->link);
	store_clear(s->store);
	tick_poke(s->daemon); /* takes the memory back, then session_drained() */
}

void session_drained(struct session *s)
{
	if (s->drained)
		return;
	s->drained = true;
	session_unref(s);
}

struct session *session_ref(struct session *s)
{
	s->refs++;
	return s;
}

struct session *session_unref(struct session *s)
{
	if (--s->refs == 0)
		session_free(s);
	return NULL;
}

void sessions_free(struct daemon *d)
{
	for (uint32_t ch = 0; ch < POOL_N_CHANNELS; ch++) {
		if (d->channels[ch]) {
			list_remove(&d->channels[ch]->link);
			session_free(d->channels[ch]);
		}
	}
}

/* --- sums ----------------------------------------------------------------------------------------- */

void session_totals(const struct session *s, struct session_totals *ret)
{
	struct process *p;

	*ret = (struct session_totals){
		.used = session_used(s),
		.store_used = store_used(s->store),
		.events = s->past_events,
	};
	memcpy(ret->lost, s->past_lost, sizeof(ret->lost));
	list_for_each(p, &s->daemon->processes, struct process, link) {
		uint64_t lost[N_LOST_REASONS];

		if (p->pool) {
			ret->base += p->pool->base_bytes;
			ret->used -= pool_promised_bytes(p->pool, s->channel);
		}
		if (!process_tally(p, s))
			continue;
		ret->pools += p->pool != NULL;
		ret->events += process_committed(p, s);
		process_lost(p, s, lost);
		for (int i = 0; i < N_LOST_REASONS; i++)
			ret->lost[i] += lost[i];
	}
}
