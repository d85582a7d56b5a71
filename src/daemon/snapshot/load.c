/* SPDX-License-Identifier: MIT */
/* One packet of a snapshot, copied and checked: see writer.h. */

#include <string.h>

#include "ctf/record.h"
#include "daemon/daemon.h"
#include "daemon/memory/pool.h"
#include "daemon/snapshot/writer.h"

uint8_t *writer_copy(struct writer *w)
{
	return w->buffer + WRITER_HEAD_ROOM;
}

uint32_t writer_body_len(void *arg, uint32_t id, const uint8_t *body, uint32_t avail)
{
	const struct snapshot *sn = ((struct look *)arg)->w->sn;
	const struct registry_event *e;

	if (id < sn->ids_first || id >= sn->ids_end)
		return 0;
	e = registry_get(sn->daemon->registry, id);
	return e ? ctf_body_len(e->layout, body, avail) : 0;
}

static void look_record(void *arg, const struct ring_record *r)
{
	struct look *l = arg;

	if (r->ts < l->since) {
		l->trimmed += r->ts < l->w->sn->keep_since;
		l->from = (uint32_t)(r->body + r->body_len - l->copy);
		return;
	}
	if (l->n++ == 0)
		l->first_ts = r->ts;
	l->last_ts = r->ts;
	l->w->seen[r->id - l->w->sn->ids_first] |= l->classes;
}

bool writer_load(
	struct writer *w, struct snapshot_packet *k, uint8_t *copy, uint8_t classes, struct look *l)
{
	struct snapshot_process *p = &w->sn->processes[k->process];
	struct sub_header h;
	uint64_t last_ts;
	uint32_t n;
	int r = 0;

	*l = (struct look){ .w = w, .copy = copy, .classes = classes, .from = SUB_HEADER_SIZE };
	l->since = p->horizon > w->sn->keep_since ? p->horizon : w->sn->keep_since;
	if (k->early)
		memcpy(copy, k->early, k->k.size);
	else if (k->stored)
		memcpy(copy, &k->stored->header, k->k.size);
	else if (ring_copy(&p->pool->ring, &k->k, copy) != 0)
		r = 1 + LEFT_RACED;
	if (k->pinned)
		snapshot_unpin(w->sn, k);
	if (r == 0)
		r = ring_verify(
			&k->k, copy, w->sn->now, writer_body_len, look_record, l, &n, &last_ts);
	k->header_good = r == 0 || r == 1 + LEFT_BAD_RECORD || r == 1 + LEFT_BAD_TIME;
	if (k->header_good) {
		memcpy(&h, copy, sizeof(h));
		k->n_before = h.n_before;
		k->lost = h.lost;
	}
	if (r != 0) {
		k->outcome = PACKET_REFUSED;
		k->reason = (uint8_t)(r - 1);
	}
	return r == 0;
}

void writer_keep(struct snapshot_packet *k, const struct look *l)
{
	k->outcome = PACKET_KEPT;
	k->n = l->n;
	k->trimmed = l->trimmed;
	k->bytes = k->k.size - l->from;
	k->first_ts = l->first_ts;
	k->last_ts = l->last_ts;
}
