/* SPDX-License-Identifier: MIT */

/* Merging by time: a heap of cursors, one per source, by the time of the next record. */

#include "ctf/merge.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "ctf/metadata.h"
#include "ctf/packet.h"

/* What class 1 has in its event context in front of the contexts of the record. */
struct identity {
	uint32_t pid, uid, cpu;
	char name[16];
};

#define MERGED_COMPACT_HEAD  (RECORD_COMPACT + (uint32_t)sizeof(struct identity))
#define MERGED_EXTENDED_HEAD (RECORD_EXTENDED + (uint32_t)sizeof(struct identity))
_Static_assert(MERGED_EXTENDED_HEAD - RECORD_COMPACT == CTF_MERGED_GROWTH, "as promised");

struct cursor {
	const struct ctf_merge_source *source;
	uint32_t at; /* of the record behind the current one */
	struct ring_record record;
};

/* The packet that is being filled. */
struct packet {
	uint64_t seq;
	uint32_t len;
	uint64_t first_ts, last_ts;
};

/* Steps to the next record. 1, 0 at the end, or -EBADMSG. */
static int cursor_next(struct cursor *c, const struct ctf_merge *m)
{
	const struct ctf_merge_source *s = c->source;
	const uint8_t *p = s->records + c->at;
	uint32_t avail = s->len - c->at, head = RECORD_COMPACT, low;
	uint16_t id;

	if (avail == 0)
		return 0;
	if (avail < RECORD_COMPACT)
		return -EBADMSG;
	memcpy(&id, p, sizeof(id));
	if (id == RECORD_ESCAPE) {
		head = RECORD_EXTENDED;
		if (avail < head)
			return -EBADMSG;
		memcpy(&c->record.id, p + 2, sizeof(c->record.id));
		memcpy(&c->record.ts, p + 6, sizeof(c->record.ts));
	} else {
		memcpy(&low, p + 2, sizeof(low));
		c->record.id = id;
		c->record.ts += (uint32_t)(low - (uint32_t)c->record.ts);
	}
	c->record.body = p + head;
	c->record.body_len = m->body_len(m->body_len_arg, c->record.id, p + head, avail - head);
	if (c->record.body_len == 0)
		return -EBADMSG;
	c->at += head + c->record.body_len;
	return 1;
}

static bool before(const struct cursor *a, const struct cursor *b)
{
	if (a->record.ts != b->record.ts)
		return a->record.ts < b->record.ts;
	return a->source < b->source;
}

static void sift_down(struct cursor *heap, uint32_t n, uint32_t i)
{
	for (;;) {
		uint32_t least = i;

		for (uint32_t k = 2 * i + 1; k <= 2 * i + 2 && k < n; k++)
			if (before(&heap[k], &heap[least]))
				least = k;
		if (least == i)
			return;
		struct cursor t = heap[i];

		heap[i] = heap[least];
		heap[least] = t;
		i = least;
	}
}

static int flush(const struct ctf_merge *m, struct packet *k)
{
	struct ctf_packet head = { .uuid = m->uuid,
		.stream = m->stream,
		.ts_begin = k->first_ts,
		.ts_end = k->last_ts,
		.content = k->len,
		.size = k->len,
		.seq = k->seq };
	uint32_t len = k->len;

	if (len <= CTF_HEAD_MERGED)
		return 0;
	ctf_packet_head_merged(m->buffer, &head);
	k->seq++;
	k->len = CTF_HEAD_MERGED;
	return m->out(m->out_arg, m->buffer, len);
}

static int add(const struct ctf_merge *m, struct packet *k, const struct cursor *c)
{
	const struct ring_record *r = &c->record;
	struct identity who = {
		.pid = c->source->pid, .uid = c->source->uid, .cpu = c->source->cpu
	};
	uint32_t low = (uint32_t)r->ts;
	uint16_t id = RECORD_ESCAPE;
	uint8_t *to;
	int e;

	memcpy(who.name, c->source->name, sizeof(who.name));
	if (k->len + MERGED_EXTENDED_HEAD + r->body_len > CTF_MERGE_BUFFER) {
		e = flush(m, k);
		if (e < 0)
			return e;
	}
	if (k->len == CTF_HEAD_MERGED)
		k->first_ts = k->last_ts = r->ts;
	to = m->buffer + k->len;
	if (r->id >= RECORD_ESCAPE || r->ts - k->last_ts > UINT32_MAX) {
		memcpy(to, &id, 2);
		memcpy(to + 2, &r->id, 4);
		memcpy(to + 6, &r->ts, 8);
		to += RECORD_EXTENDED;
	} else {
		id = (uint16_t)r->id;
		memcpy(to, &id, 2);
		memcpy(to + 2, &low, 4);
		to += RECORD_COMPACT;
	}
	memcpy(to, &who, sizeof(who));
	memcpy(to + sizeof(who), r->body, r->body_len);
	k->len = (uint32_t)(to - m->buffer) + (uint32_t)sizeof(who) + r->body_len;
	k->last_ts = r->ts;
	return 0;
}

int ctf_merge(const struct ctf_merge *m, const struct ctf_merge_source *sources, uint32_t n)
{
	struct cursor *heap = calloc(n ? n : 1, sizeof(*heap));
	struct packet k = { .len = CTF_HEAD_MERGED, .seq = m->seq };
	uint32_t n_heap = 0;
	int r = 0;

	if (!heap)
		return -ENOMEM;
	for (uint32_t i = 0; i < n && r >= 0; i++) {
		struct cursor *c = &heap[n_heap];

		c->source = &sources[i];
		c->record.ts = sources[i].begin_ts;
		c->at = 0;
		r = cursor_next(c, m);
		if (r > 0)
			n_heap++;
	}
	for (uint32_t i = n_heap / 2; i-- > 0;)
		sift_down(heap, n_heap, i);
	while (n_heap > 0 && r >= 0) {
		r = add(m, &k, &heap[0]);
		if (r < 0)
			break;
		r = cursor_next(&heap[0], m);
		if (r == 0)
			heap[0] = heap[--n_heap];
		sift_down(heap, n_heap, 0);
	}
	if (r >= 0)
		r = flush(m, &k);
	free(heap);
	return r;
}
