/* SPDX-License-Identifier: MIT */
/* Ending silent sub-buffers: see retire.h. */

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "daemon/daemon.h"
#include "daemon/memory/retire.h"
#include "daemon/memory/tick.h"
#include "daemon/programs/process.h"

#define BATCH_MAX	 64u
#define FAIL_WAIT_NS	 (UINT64_C(2) * 1000000000) /* doubles with each failure, ... */
#define FAIL_DOUBLES_MAX 10u			    /* ... up to half an hour */

struct item {
	struct process *process; /* its pool is held */
	struct pool *pool;
	uint32_t ch, stream;
	uint64_t pos;
	int result;
};

struct retire {
	uv_work_t work;
	struct daemon *daemon;
	bool busy;
	uint32_t n;
	struct item items[BATCH_MAX];
};

int retire_init(struct daemon *d)
{
	d->retire = calloc(1, sizeof(*d->retire));
	if (!d->retire)
		return -ENOMEM;
	d->retire->daemon = d;
	return 0;
}

void retire_fini(struct daemon *d)
{
	free(d->retire);
	d->retire = NULL;
}

bool retire_busy(const struct daemon *d)
{
	return d->retire->busy;
}

bool retire_add(struct daemon *d, struct process *p, uint32_t ch, uint32_t stream, uint64_t pos)
{
	struct retire *r = d->retire;
	struct pool *pool;

	if (r->busy || r->n == BATCH_MAX)
		return false;
	pool = process_hold_pool(p);
	if (!pool)
		return false;
	r->items[r->n++] = (struct item){
		.process = p,
		.pool = pool,
		.ch = ch,
		.stream = stream,
		.pos = pos,
	};
	return true;
}

static int pin_to(uint32_t cpu)
{
	size_t size = CPU_ALLOC_SIZE(cpu + 1);
	cpu_set_t *set = CPU_ALLOC(cpu + 1);
	int r;

	if (!set)
		return -ENOMEM;
	CPU_ZERO_S(size, set);
	CPU_SET_S(cpu, size, set);
	r = sched_setaffinity(0, size, set) < 0 ? -errno : 0;
	CPU_FREE(set);
	return r;
}

/* Worker. The thread belongs to libuv: it gets back the CPUs that it had. */
static void retire_work(uv_work_t *work)
{
	struct retire *r = list_entry(work, struct retire, work);
	cpu_set_t before;
	bool known = sched_getaffinity(0, sizeof(before), &before) == 0;

	for (uint32_t i = 0; i < r->n; i++) {
		struct item *it = &r->items[i];

		it->result = 0;
		if (it->pool->mode == RING_RSEQ)
			it->result = known ? pin_to(it->stream) : -ENOTSUP;
		if (it->result == 0)
			it->result = ring_retire(&it->pool->ring, it->ch, it->stream, it->pos,
				it->pool->mode, it->pool->clock);
	}
	if (known)
		sched_setaffinity(0, sizeof(before), &before);
}

/* What we did is neither young data nor a movement of the program. */
static void retired(const struct item *it, struct pool_channel_books *b)
{
	uint32_t idx = geometry_idx(&it->pool->ring.geometry, pos_off(it->pos));

	it->pool->subs[idx].silent = true;
	it->pool->subs[idx].silent_gen = pos_gen(it->pos);
	if (b->seen && b->seen[it->stream] == it->pos)
		b->seen[it->stream] = pos_make(gen_next(pos_gen(it->pos)), pos_par(it->pos), 0);
}

static void retire_done(uv_work_t *work, int status)
{
	struct retire *r = list_entry(work, struct retire, work);
	struct daemon *d = r->daemon;

	for (uint32_t i = 0; i < r->n; i++) {
		struct item *it = &r->items[i];
		struct pool_channel_books *b = &it->pool->channel[it->ch];

		if (it->result == 0) {
			b->retire_fails = 0;
			retired(it, b);
		} else {
			/* Its CPU is offline, or not ours: do not stay awake for it. */
			b->retire_at = clock_now(&d->clock) +
				       clock_ticks_of(&d->clock, FAIL_WAIT_NS << b->retire_fails);
			if (b->retire_fails < FAIL_DOUBLES_MAX)
				b->retire_fails++;
		}
		process_release_pool(it->process);
	}
	r->n = 0;
	r->busy = false;
	tick_poke(d);
}

void retire_start(struct daemon *d)
{
	struct retire *r = d->retire;

	if (r->busy || r->n == 0)
		return;
	r->busy = true;
	if (uv_queue_work(d->loop, &r->work, retire_work, retire_done) < 0)
		retire_done(&r->work, UV_ENOMEM);
}
