/* SPDX-License-Identifier: MIT */
/*
 * When to look: see tick.h for the states.
 *
 * The word `asleep` in the control file is written by the loop thread alone. A thread of its own
 * waits on it, for nothing else can be woken by a program that may write nothing of ours.
 *
 *   loop                               sleeper                        writer in a switch
 *   asleep = v, post(go) ------------> wait(go)
 *                                      futex_wait(asleep, v) <------- wanted? futex_wake
 *   woken: asleep = 0, tick <--------- still v: async_send
 *
 * A wake that comes before the sleeper waits is lost; DROWSY's last tick finds that switch.
 */

#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/daemon.h"
#include "daemon/memory/grant.h"
#include "daemon/memory/tick.h"

#define TICK_MS	      1000u
#define TICK_FAST_MS  20u
#define TICK_FIRST_MS 1u /* after a call */
#define NS_PER_MS     UINT64_C(1000000)

enum tick_state { AWAKE, DROWSY, ASLEEP };

struct tick {
	struct daemon *daemon;
	uv_timer_t timer;
	uv_async_t woken;
	uv_thread_t sleeper;
	uv_sem_t go;
	_Atomic bool quit;
	enum tick_state state;
	uint64_t pace_ms;   /* to the next look; doubles up to TICK_MS */
	uint32_t n_handles; /* open still: the last one that closes frees this */
};

/* --- the sleeper ---------------------------------------------------------------------------------- */

static void futex(_Atomic uint32_t *word, int op, uint32_t value)
{
	syscall(SYS_futex, word, op, value, NULL, NULL, 0);
}

static void sleeper_run(void *arg)
{
	struct tick *t = arg;
	_Atomic uint32_t *asleep = &t->daemon->rundir.control->asleep;

	for (;;) {
		uint32_t value;

		uv_sem_wait(&t->go);
		if (atomic_load(&t->quit))
			return;
		value = atomic_load(asleep);
		if (value == DAEMON_AWAKE)
			continue;
		futex(asleep, FUTEX_WAIT, value);
		/* If the loop changed it, there is nothing to tell. */
		if (atomic_load(asleep) == value)
			uv_async_send(&t->woken);
	}
}

/* --- states --------------------------------------------------------------------------------------- */

static void tick_timer(uv_timer_t *timer);

static void timer_set(struct tick *t, uint64_t ms)
{
	uv_timer_start(&t->timer, tick_timer, ms, 0);
}

static void sleep_as(struct tick *t, enum daemon_sleep value)
{
	_Atomic uint32_t *asleep = &t->daemon->rundir.control->asleep;

	if (atomic_load(asleep) == (uint32_t)value)
		return;
	atomic_store(asleep, value);
	futex(asleep, FUTEX_WAKE, 1); /* the sleeper comes back, to wait for the new value */
	if (value != DAEMON_AWAKE)
		uv_sem_post(&t->go);
}

/* The next look when nothing happens before. */
static void sleep_until(struct tick *t, uint64_t next_ns)
{
	if (next_ns == UINT64_MAX)
		uv_timer_stop(&t->timer);
	else
		timer_set(t, next_ns / NS_PER_MS < TICK_MS ? TICK_MS : next_ns / NS_PER_MS + 1);
}

/* Often while memory is to be moved or a burst may be under way, which the looks that follow a call
 * are for; they are no use where there is nothing to give. */
static void stay_awake(struct tick *t, const struct grant_result *r)
{
	bool called = t->pace_ms < TICK_MS;
	uint64_t ms = t->pace_ms;

	if (r->hungry && ms > TICK_FAST_MS)
		ms = TICK_FAST_MS;
	else if (!r->hungry && !r->plenty)
		ms = TICK_MS;
	t->pace_ms = 2 * ms < TICK_MS ? 2 * ms : TICK_MS;
	t->state = AWAKE;
	/* Who called in vain is not heard again within this second. */
	sleep_as(t, r->hungry || called ? DAEMON_AWAKE : DAEMON_DOZING);
	timer_set(t, ms);
}

static void tick_timer(uv_timer_t *timer)
{
	struct tick *t = list_entry(timer, struct tick, timer);
	struct grant_result r;

	grant_tick(t->daemon, &r);
	if (r.hungry || r.pending || r.switched || (r.moved && t->state != DROWSY) ||
		(r.plenty && t->pace_ms < TICK_MS)) {
		stay_awake(t, &r);
		return;
	}
	switch (t->state) {
	case AWAKE:
		t->state = DROWSY;
		sleep_as(t, DAEMON_ASLEEP);
		timer_set(t, TICK_MS);
		break;
	case DROWSY:
		t->state = ASLEEP;
		sleep_until(t, r.next_ns);
		break;
	case ASLEEP:
		sleep_until(t, r.next_ns);
		break;
	}
}

static void tick_woken(uv_async_t *async)
{
	struct tick *t = list_entry(async, struct tick, woken);

	t->state = AWAKE;
	t->pace_ms = TICK_FIRST_MS;
	sleep_as(t, DAEMON_AWAKE);
	timer_set(t, 0);
}

void tick_poke(struct daemon *d)
{
	struct tick *t = d->tick;

	if (!t)
		return;
	t->state = AWAKE;
	sleep_as(t, DAEMON_AWAKE);
	if (!uv_is_active((uv_handle_t *)&t->timer) ||
		uv_timer_get_due_in(&t->timer) > TICK_FAST_MS)
		timer_set(t, TICK_FAST_MS);
}

/* --- life ----------------------------------------------------------------------------------------- */

static void tick_closed(uv_handle_t *h)
{
	struct tick *t = h->data;

	if (--t->n_handles > 0)
		return;
	uv_sem_destroy(&t->go);
	free(t);
}

int tick_init(struct daemon *d)
{
	struct tick *t = calloc(1, sizeof(*t));
	int r;

	if (!t)
		return -ENOMEM;
	t->daemon = d;
	t->state = AWAKE;
	t->pace_ms = TICK_MS;
	r = uv_sem_init(&t->go, 0);
	if (r < 0) {
		free(t);
		return r;
	}
	r = uv_thread_create(&t->sleeper, sleeper_run, t);
	if (r < 0) {
		uv_sem_destroy(&t->go);
		free(t);
		return r;
	}
	uv_timer_init(d->loop, &t->timer);
	uv_async_init(d->loop, &t->woken, tick_woken);
	t->timer.data = t->woken.data = t;
	t->n_handles = 2;
	d->tick = t;
	timer_set(t, TICK_MS);
	return 0;
}

void tick_fini(struct daemon *d)
{
	struct tick *t = d->tick;

	if (!t)
		return;
	atomic_store(&t->quit, true);
	sleep_as(t, DAEMON_AWAKE);
	uv_sem_post(&t->go);
	uv_thread_join(&t->sleeper);
	uv_close((uv_handle_t *)&t->timer, tick_closed);
	uv_close((uv_handle_t *)&t->woken, tick_closed);
	d->tick = NULL;
}
