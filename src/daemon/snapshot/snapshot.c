/* SPDX-License-Identifier: MIT */

/*
 * The loop thread's part of a snapshot: see snapshot.h. The cut reads the positions of all streams
 * first; only then the clock, so that every record at the cut is before it, and the listing.
 */

#include "daemon/snapshot/snapshot.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/text.h"
#include "base/units.h"
#include "daemon/daemon.h"
#include "daemon/memory/pool.h"
#include "daemon/programs/process.h"
#include "daemon/session.h"
#include "daemon/snapshot/data.h"

/* Kept beyond the window, so that who asks for 30 s surely finds 30 s. */
#define MARGIN_NS UINT64_C(1000000000)
/* Packets are pinned until they have been copied, the newest ones, for writers may be faster than
 * the copying. So many are left to the writers: a quarter of all, and not less than this, or than two
 * per stream. */
#define PIN_RESERVE 8u
/* What may be copied at once, at the cut. */
#define EARLY_BYTES (UINT64_C(1) << 20)

/* --- cut -------------------------------------------------------------------------------------- */

static void cut_stream(const struct snapshot *sn, struct snapshot_process *p, uint32_t stream)
{
	struct snapshot_stream *s = &p->streams[stream];
	const struct ring_pool *ring = p->pool ? &p->pool->ring : NULL;
	uint64_t lost[N_LOST_REASONS] = { 0 };

	s->n = process_records(p->process, sn->session, stream, &s->pos);
	if (!ring || s->n == 0)
		return;
	s->last_ts = atomic_load_explicit(
		&ring_line(ring, sn->session->channel, stream)->last_ts, memory_order_relaxed);
	ring_stream_lost(ring, sn->session->channel, stream, lost);
	s->lost = snapshot_sum(lost, N_LOST_REASONS);
}

static int cut_process(struct snapshot *sn, struct process *process)
{
	const struct process_channel *c = process_tally(process, sn->session);
	struct snapshot_process *p = &sn->processes[sn->n_processes];
	uint64_t n = 0;

	p->streams = calloc(process->n_streams, sizeof(*p->streams));
	if (!p->streams)
		return -ENOMEM;
	sn->n_processes++;
	p->process = process_ref(process);
	p->pool = process_hold_pool(process);
	p->n_streams = process->n_streams;
	p->alive = process->alive;
	p->end_known = process->end_known;
	p->end_status = process->end_status;
	p->started_at = process->started_at;
	p->ended_at = process->ended_at;
	p->pinned_until = p->pool ? p->pool->pinned_until : 0;
	p->since = process->started_at > sn->session->started_at ? process->started_at
								 : sn->session->started_at;
	for (uint32_t i = 0; i < p->n_streams; i++) {
		cut_stream(sn, p, i);
		n += p->streams[i].n;
	}
	/* From the numbers of this cut alone: the program goes on. */
	p->committed = n > c->base ? n - c->base : 0;
	process_lost(process, sn->session, p->lost);
	p->lost_base = snapshot_sum(c->lost_base, N_LOST_REASONS);
	p->aged = c->aged;
	p->consumed = c->consumed;
	return 0;
}

static int cut(struct snapshot *sn)
{
	struct process *process;
	uint32_t n = 0;
	int r = 0;

	list_for_each(process, &sn->daemon->processes, struct process, link)
		n += process_tally(process, sn->session) != NULL;
	sn->processes = calloc(n + 1, sizeof(*sn->processes));
	if (!sn->processes)
		return -ENOMEM;
	list_for_each(process, &sn->daemon->processes, struct process, link)
		if (r == 0 && process_tally(process, sn->session))
			r = cut_process(sn, process);
	return r;
}

/* --- times ------------------------------------------------------------------------------------ */

static void set_times(struct snapshot *sn, const struct snapshot_options *o)
{
	const struct session *s = sn->session;
	uint64_t window = s->window_ns ? s->window_ns : UINT64_MAX, ticks, keep;

	clock_map(&sn->daemon->clock, &sn->map);
	sn->now = sn->map.ticks;
	sn->until = s->active ? sn->now : s->stopped_at;
	sn->window_ns = window;
	ticks = window < UINT64_MAX ? clock_ticks_of(&sn->daemon->clock, window) : sn->until;
	sn->window_since = ticks < sn->until ? sn->until - ticks : 0;
	keep = o->last_ns > 0 && o->last_ns < window ? o->last_ns : window;
	if (keep < UINT64_MAX - MARGIN_NS) {
		keep += keep / 8 < MARGIN_NS ? keep / 8 : MARGIN_NS;
		ticks = clock_ticks_of(&sn->daemon->clock, keep);
		sn->keep_since = ticks < sn->until ? sn->until - ticks : 0;
	}
	sn->session_started_at = s->started_at;
}

static int set_trace(struct snapshot *sn)
{
	struct ctf_trace *t = &sn->trace;

	if (getrandom(t->uuid, sizeof(t->uuid), 0) != sizeof(t->uuid))
		return -EIO;
	t->uuid[6] = (t->uuid[6] & 0x0f) | 0x40; /* RFC 4122: random */
	t->uuid[8] = (t->uuid[8] & 0x3f) | 0x80;
	if (gethostname(sn->hostname, sizeof(sn->hostname) - 1) < 0)
		strcpy(sn->hostname, "unknown");
	t->hostname = sn->hostname;
	t->session = sn->session->name;
	t->tracer_version = VARVE_VERSION;
	t->clock_name = clock_name(sn->map.kind);
	t->clock_description = sn->map.kind == TRACE_CLOCK_MONOTONIC ? "CLOCK_MONOTONIC"
								     : "counter of the processor";
	t->clock_freq = sn->map.freq_hz;
	ctf_clock_offset(sn->map.freq_hz, sn->map.ticks, sn->map.unix_ns, &t->clock_offset_s,
		&t->clock_offset);
	return 0;
}

/* --- listing ---------------------------------------------------------------------------------- */

static struct snapshot_packet *packet_add(struct snapshot *sn)
{
	if (sn->n_packets == sn->room_packets) {
		uint32_t room = sn->room_packets ? 2 * sn->room_packets : 256;
		struct snapshot_packet *p = reallocarray(sn->packets, room, sizeof(*p));

		if (!p)
			return NULL;
		sn->packets = p;
		sn->room_packets = room;
	}
	memset(&sn->packets[sn->n_packets], 0, sizeof(*sn->packets));
	return &sn->packets[sn->n_packets++];
}

/* Those that writers are in, then those that ended last: the order in which they are worth most. */
static int newest_first(const void *a, const void *b)
{
	const struct ring_packet *x = a, *y = b;

	if (x->current != y->current)
		return x->current ? -1 : 1;
	if (x->end_ts != y->end_ts)
		return x->end_ts > y->end_ts ? -1 : 1;
	return 0;
}

/* Whether packets of this process are gone: then what is newest may have old records in front. */
static bool has_lost_packets(const struct snapshot_process *p, uint32_t n)
{
	uint64_t gens = 0;

	for (uint32_t i = 0; i < p->n_streams; i++)
		gens += pos_gen(p->streams[i].pos);
	return gens > n;
}

/* How many of n packets to pin. */
static uint32_t pins_of(const struct snapshot_process *p, uint32_t n)
{
	uint32_t reserve = n / 4 > PIN_RESERVE ? n / 4 : PIN_RESERVE, streams = 0;

	for (uint32_t i = 0; i < p->n_streams; i++)
		streams += p->streams[i].n > 0;
	reserve = reserve > 2 * streams ? reserve : 2 * streams;
	return p->alive && n > reserve ? n - reserve : 0;
}

/* Copies a current packet now: where its old records end shows only when all has been read. */
static void copy_early(struct snapshot *sn, struct snapshot_packet *k)
{
	if (k->k.size == 0 || sn->early_bytes + k->k.size > EARLY_BYTES)
		return;
	k->early = malloc(k->k.size);
	if (!k->early)
		return;
	if (ring_copy(&sn->processes[k->process].pool->ring, &k->k, k->early) == 0) {
		sn->early_bytes += k->k.size;
		return;
	}
	free(k->early);
	k->early = NULL;
}

static void pin(struct snapshot_process *p, struct snapshot_packet *k)
{
	if (ring_pin(&p->pool->ring, k->k.idx, k->k.state, &k->k.state) != 0)
		return;
	k->pinned = true;
	p->pool->pinned_until = UINT64_MAX;
}

static int list_pool(struct snapshot *sn, uint32_t process)
{
	struct snapshot_process *p = &sn->processes[process];
	struct ring_packet *found = calloc(p->pool->ring.n_subs, sizeof(*found));
	uint64_t *cuts = calloc(p->n_streams, sizeof(*cuts));
	uint32_t n = 0, n_pins;
	bool early;
	int r = found && cuts ? 0 : -ENOMEM;

	if (r == 0) {
		for (uint32_t i = 0; i < p->n_streams; i++)
			cuts[i] = p->streams[i].pos;
		n = ring_list(&p->pool->ring, sn->session->channel, cuts, found);
	}
	early = has_lost_packets(p, n);
	n_pins = pins_of(p, n);
	if (n > 1)
		qsort(found, n, sizeof(*found), newest_first);
	for (uint32_t i = 0; i < n && r == 0; i++) {
		struct snapshot_packet *k;

		if (found[i].size == SUB_HEADER_SIZE) /* no record yet */
			continue;
		k = packet_add(sn);
		if (!k) {
			r = -ENOMEM;
			break;
		}
		k->k = found[i];
		k->process = process;
		if (!k->k.current && k->k.end_ts > sn->now)
			k->k.end_ts = sn->now; /* records behind that are not believed */
		k->open = k->k.current;
		if (k->open && early)
			copy_early(sn, k);
		else if (!k->open && i < n_pins)
			pin(p, k);
		k->maybe_old = k->k.current && p->streams[k->k.stream].last_ts < sn->keep_since;
	}
	free(found);
	free(cuts);
	return r;
}

struct visit {
	struct snapshot *sn;
	int r;
};

/* Index of a process; they are in the order of their serials. n_processes if it is not there. */
static uint32_t process_index(const struct snapshot *sn, const struct process *process)
{
	uint32_t low = 0, high = sn->n_processes;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (sn->processes[mid].process->serial < process->serial)
			low = mid + 1;
		else
			high = mid;
	}
	return low < sn->n_processes && sn->processes[low].process == process ? low
									      : sn->n_processes;
}

static void list_stored(void *arg, const struct store_packet *stored)
{
	struct visit *v = arg;
	struct snapshot *sn = v->sn;
	uint32_t i = process_index(sn, stored->process);
	struct snapshot_packet *k;

	if (i == sn->n_processes)
		return; /* of an earlier session */
	k = packet_add(sn);
	if (!k) {
		v->r = -ENOMEM;
		return;
	}
	k->stored = stored;
	k->open = stored->open;
	k->process = i;
	k->k = (struct ring_packet){
		.idx = stored->idx,
		.ch = sn->session->channel,
		.stream = stored->stream,
		.gen = stored->gen,
		.begin_ts = stored->header.begin_ts,
		.end_ts = stored->end_ts < sn->now ? stored->end_ts : sn->now,
		.size = stored->size,
	};
	if (stored->refused) {
		k->outcome = PACKET_REFUSED;
		k->reason = (uint8_t)(stored->refused - 1);
	}
}

static int list_all(struct snapshot *sn)
{
	struct visit v = { .sn = sn };
	int r = 0;

	for (uint32_t i = 0; i < sn->n_processes && r == 0; i++)
		if (sn->processes[i].pool)
			r = list_pool(sn, i);
	store_visit(sn->session->store, list_stored, &v);
	return r < 0 ? r : v.r;
}

/* Whether there is anything of the time asked for. */
static bool has_records(const struct snapshot *sn)
{
	for (uint32_t i = 0; i < sn->n_packets; i++) {
		const struct snapshot_packet *k = &sn->packets[i];

		if (k->outcome != PACKET_LISTED || k->k.size == 0)
			continue;
		if (k->stored	       ? k->stored->last_ts >= sn->keep_since
			: k->k.current ? !k->maybe_old
				       : k->k.end_ts >= sn->keep_since)
			return true;
	}
	return false;
}

void snapshot_unpin(const struct snapshot *sn, struct snapshot_packet *k)
{
	ring_unpin(&sn->processes[k->process].pool->ring, k->k.idx, k->k.state);
	k->pinned = false;
}

/* --- life ------------------------------------------------------------------------------------- */

uint64_t snapshot_taken_at(const struct snapshot *sn)
{
	return sn->map.unix_ns;
}

void snapshot_free(struct snapshot *sn)
{
	if (!sn)
		return;
	for (uint32_t i = 0; i < sn->n_packets; i++) {
		if (sn->packets[i].pinned)
			snapshot_unpin(sn, &sn->packets[i]);
		free(sn->packets[i].early);
	}
	for (uint32_t i = 0; i < sn->n_processes; i++) {
		struct snapshot_process *p = &sn->processes[i];

		if (p->pool && p->pool->pinned_until == UINT64_MAX)
			p->pool->pinned_until = clock_now(&sn->daemon->clock);
		if (p->pool)
			process_release_pool(p->process);
		process_unref(p->process);
		free(p->streams);
	}
	store_release(sn->session->store);
	session_unref(sn->session);
	if (sn->fd >= 0)
		close(sn->fd);
	list_remove(&sn->link);
	sn->daemon->n_snapshots--;
	free(sn->processes);
	free(sn->packets);
	free(sn);
}

static struct snapshot *snapshot_alloc(struct daemon *d, struct session *s)
{
	struct snapshot *sn = calloc(1, sizeof(*sn));

	if (!sn)
		return NULL;
	sn->daemon = d;
	sn->session = session_ref(s);
	sn->fd = -1;
	store_hold(s->store);
	list_append(&d->snapshots, &sn->link);
	d->n_snapshots++;
	return sn;
}

static char *nothing_text(const struct snapshot *sn, const struct snapshot_options *o)
{
	uint64_t span = o->last_ns ? o->last_ns : sn->window_ns;

	if (span == UINT64_MAX || sn->n_packets == 0)
		return text_format("nothing recorded in session '%s'", sn->session->name);
	return text_format("nothing recorded in session '%s' within the last %.3g s%s",
		sn->session->name, (double)span / 1e9,
		sn->until < sn->now ? " before it was stopped" : "");
}

int snapshot_new(struct daemon *d, struct session *s, const struct snapshot_options *o,
	struct snapshot **ret, char **ret_error)
{
	struct snapshot *sn;
	int r;

	*ret_error = NULL;
	if (d->n_snapshots == SNAPSHOTS_MAX) {
		*ret_error = text_format(
			"%u snapshots are under way: try again when one is done", d->n_snapshots);
		return -EBUSY;
	}
	sn = snapshot_alloc(d, s);
	if (!sn)
		return -ENOMEM;
	sn->budget = s->budget;
	sn->used = session_used(s);
	sn->ids_first = registry_first(d->registry);
	r = cut(sn);
	if (r == 0) {
		set_times(sn, o);
		sn->ids_end = registry_end(d->registry);
		r = set_trace(sn);
	}
	if (r == 0)
		r = list_all(sn);
	if (r == 0 && !o->allow_empty && !has_records(sn)) {
		*ret_error = nothing_text(sn, o);
		r = -ENODATA;
	}
	if (r < 0) {
		snapshot_free(sn);
		return r;
	}
	*ret = sn;
	return 0;
}

static void work(uv_work_t *w)
{
	snapshot_write(w->data);
}

static void after(uv_work_t *w, int status)
{
	struct snapshot *sn = w->data;

	snapshot_free(sn);
}

void snapshot_send(struct snapshot *sn, int fd)
{
	int r;

	sn->fd = fd;
	sn->work.data = sn;
	r = uv_queue_work(sn->daemon->loop, &sn->work, work, after);
	assert(r == 0); /* fails without a work function only */
	(void)r;
}

void snapshots_cancel(struct daemon *d)
{
	struct snapshot *sn;

	list_for_each(sn, &d->snapshots, struct snapshot, link)
		atomic_store_explicit(&sn->cancel, true, memory_order_relaxed);
}
