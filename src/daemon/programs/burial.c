/* SPDX-License-Identifier: MIT */
/* The death of processes: see burial.h. */

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "daemon/daemon.h"
#include "daemon/memory/pool-view.h"
#include "daemon/memory/room.h"
#include "daemon/memory/tick.h"
#include "daemon/programs/burial.h"
#include "daemon/programs/store.h"
#include "daemon/session.h"

#define MOVE_BYTES (1u << 20) /* in one go; the loop serves others in between */

struct burial {
	uv_idle_t idle;
	struct daemon *daemon;
};

/* --- pidfds --------------------------------------------------------------------------------------- */

struct watch {
	uv_poll_t poll;		 /* first: closed with it */
	int pidfd;		 /* owned */
	struct process *process; /* NULL once it does not care any more */
};

/* As in <linux/pidfd.h> of Linux 6.15, which older systems do not have. */
struct pidfd_info_v1 {
	uint64_t mask, cgroupid;
	uint32_t ids[11]; /* pid, tgid, ppid, and four pairs of uid and gid */
	int32_t exit_code;
	uint32_t reserved[2];
};
#define PIDFD_GET_INFO_V1  _IOWR(0xff, 11, struct pidfd_info_v1)
#define PIDFD_INFO_EXIT_V1 (UINT64_C(1) << 3)

static bool end_status_get(int pidfd, int *ret)
{
	struct pidfd_info_v1 info = { .mask = PIDFD_INFO_EXIT_V1 };

	if (ioctl(pidfd, PIDFD_GET_INFO_V1, &info) < 0 || !(info.mask & PIDFD_INFO_EXIT_V1))
		return false;
	*ret = info.exit_code;
	return true;
}

static void watch_closed(uv_handle_t *h)
{
	struct watch *w = (struct watch *)h;

	close(w->pidfd);
	free(w);
}

void burial_died(struct process *p)
{
	struct daemon *d = p->daemon;

	p->alive = false;
	p->ended_at = clock_now(&d->clock);
	account_return(&d->accounts, p->uid, CHARGE_PROCESSES, 1);
	burial_resume(d);
}

static void watch_event(uv_poll_t *handle, int status, int events)
{
	struct watch *w = (struct watch *)handle;
	struct process *p = w->process;
	struct pollfd look = { .fd = w->pidfd };
	bool reaped = status < 0 || (poll(&look, 1, 0) == 1 && (look.revents & POLLHUP));

	if (p->alive)
		burial_died(p);
	if (!reaped) {
		uv_poll_start(&w->poll, UV_DISCONNECT, watch_event);
		return;
	}
	p->end_known = end_status_get(w->pidfd, &p->end_status);
	burial_unwatch(p);
}

int burial_watch(struct process *p, int pidfd)
{
	struct watch *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return -ENOMEM;
	r = uv_poll_init(p->daemon->loop, &w->poll, pidfd);
	if (r < 0) {
		free(w);
		return r;
	}
	w->pidfd = pidfd;
	w->process = p;
	p->watch = w;
	uv_poll_start(&w->poll, UV_READABLE, watch_event);
	return 0;
}

void burial_unwatch(struct process *p)
{
	if (!p->watch)
		return;
	uv_poll_stop(&p->watch->poll);
	uv_close((uv_handle_t *)&p->watch->poll, watch_closed);
	p->watch = NULL;
}

/* --- moving --------------------------------------------------------------------------------------- */

static int oldest_first(const void *pa, const void *pb)
{
	const struct ring_packet *a = pa, *b = pb;

	if (a->begin_ts != b->begin_ts)
		return a->begin_ts < b->begin_ts ? -1 : 1;
	if (a->stream != b->stream)
		return a->stream < b->stream ? -1 : 1;
	return a->gen == b->gen ? 0 : gen_after(a->gen, b->gen) ? 1 : -1;
}

/* The packets of a dead pool's channel, the oldest first; only such as were granted. New array,
 * or NULL. */
static struct ring_packet *packets_list(const struct process *p, uint32_t ch, uint32_t *ret_n)
{
	const struct pool *pool = p->pool;
	uint64_t *cuts = calloc(p->n_streams, sizeof(*cuts));
	struct ring_packet *list = calloc(pool->ring.n_subs, sizeof(*list));
	uint32_t n = 0, kept = 0;

	for (uint32_t i = 0; cuts && i < p->n_streams; i++)
		ring_stream_records(&pool->ring, ch, i, &cuts[i]);
	if (cuts && list)
		n = ring_list(&pool->ring, ch, cuts, list);
	free(cuts);
	for (uint32_t i = 0; i < n; i++) {
		const struct pool_sub *sub = &pool->subs[list[i].idx];

		if (sub->ch == ch && (sub->kind == POOL_SUB_HELD || sub->kind == POOL_SUB_PROMISED))
			list[kept++] = list[i];
	}
	if (kept > 1)
		qsort(list, kept, sizeof(*list), oldest_first);
	*ret_n = kept;
	return list;
}

/* Moves at most max bytes of a channel. Returns how many. */
static uint64_t channel_move(struct process *p, struct session *s, uint64_t max)
{
	uint64_t moved = 0;
	uint32_t n;
	struct ring_packet *list = packets_list(p, s->channel, &n);

	for (uint32_t i = 0; list && i < n && moved < max; i++) {
		const struct ring_packet *k = &list[i];

		/* The copy and the original are both there for a moment. */
		if (room_make(s, k->size + STORE_PACKET_OVERHEAD))
			store_take(s->store, p, k);
		pool_drop(p->daemon, p->pool, k->idx);
		moved += pool_sub_size(p->pool, k->idx);
	}
	free(list);
	return moved;
}

/* Moves some of a dead process's packets; drops the pool when there are no more. */
static void process_move(struct process *p)
{
	uint64_t moved = 0;

	for (uint32_t ch = 0; ch < POOL_N_CHANNELS && moved < MOVE_BYTES; ch++) {
		struct session *s = p->daemon->channels[ch];

		if (s && !s->destroyed && process_tally(p, s))
			moved += channel_move(p, s, MOVE_BYTES - moved);
	}
	if (moved < MOVE_BYTES) {
		process_drop_pool(p);
		tick_poke(p->daemon);
	}
}

static void burial_idle(uv_idle_t *idle)
{
	struct daemon *d = list_entry(idle, struct burial, idle)->daemon;
	struct process *p;

	list_for_each(p, &d->processes, struct process, link) {
		if (!p->alive && p->pool && p->pool->readers == 0) {
			process_move(p);
			return;
		}
	}
	uv_idle_stop(idle);
}

void burial_resume(struct daemon *d)
{
	if (d->burial)
		uv_idle_start(&d->burial->idle, burial_idle);
}

/* --- memory of the dead --------------------------------------------------------------------------- */

void burial_forget_old(struct daemon *d, uint64_t now)
{
	uint64_t window = 0;
	uint32_t n = 0;
	struct session *s;
	struct process *p;

	list_for_each(s, &d->sessions, struct session, link)
		if (s->window_ns > window)
			window = s->window_ns;
	window = clock_ticks_of(&d->clock, window);
	list_for_each(p, &d->processes, struct process, link)
		n += !p->alive;
	list_for_each(p, &d->processes, struct process, link) {
		if (p->alive || (n <= BURIAL_NAMES_MAX && now - p->ended_at < window))
			continue;
		n -= process_forget(p);
	}
}

static void burial_closed(uv_handle_t *h)
{
	free(list_entry((uv_idle_t *)h, struct burial, idle));
}

int burial_init(struct daemon *d)
{
	struct burial *b = calloc(1, sizeof(*b));

	if (!b)
		return -ENOMEM;
	b->daemon = d;
	uv_idle_init(d->loop, &b->idle);
	d->burial = b;
	return 0;
}

void burial_fini(struct daemon *d)
{
	if (d->burial)
		uv_close((uv_handle_t *)&d->burial->idle, burial_closed);
	d->burial = NULL; /* burial_resume() then does nothing */
}
