/* SPDX-License-Identifier: MIT */

/* Heads of packets: the layouts of metadata.c's packet.header and packet.context. */

#include "ctf/packet.h"

#include <stddef.h>
#include <string.h>

#include "ctf/metadata.h"

#define CTF_MAGIC 0xc1fc1fc1u

struct head_common {
	uint32_t magic;
	uint8_t uuid[16];
	uint32_t stream_class;
	uint64_t stream;
	uint64_t ts_begin, ts_end;
	uint64_t content_bits, packet_bits;
	uint64_t seq, discarded;
};
_Static_assert(sizeof(struct head_common) == CTF_HEAD_MERGED, "as in the metadata");
_Static_assert(offsetof(struct head_common, ts_begin) == CTF_BEGIN_OFF, "as promised");
_Static_assert(offsetof(struct head_common, discarded) == CTF_DISCARDED_OFF, "as promised");

struct head_process {
	struct head_common common;
	uint32_t cpu, pid, uid;
	char name[16];
	uint32_t gen;
};
_Static_assert(sizeof(struct head_process) == CTF_HEAD_PROCESS, "as in the metadata");

static void fill(struct head_common *h, const struct ctf_packet *k, uint32_t stream_class)
{
	h->magic = CTF_MAGIC;
	memcpy(h->uuid, k->uuid, sizeof(h->uuid));
	h->stream_class = stream_class;
	h->stream = k->stream;
	h->ts_begin = k->ts_begin;
	h->ts_end = k->ts_end;
	h->content_bits = k->content * 8;
	h->packet_bits = k->size * 8;
	h->seq = k->seq;
	h->discarded = k->discarded;
}

void ctf_packet_head(uint8_t *ret, const struct ctf_packet *k)
{
	struct head_process h = { .cpu = k->cpu, .pid = k->pid, .uid = k->uid, .gen = k->gen };

	fill(&h.common, k, CTF_CLASS_PROCESS);
	memcpy(h.name, k->name, strnlen(k->name, sizeof(h.name)));
	memcpy(ret, &h, sizeof(h));
}

void ctf_packet_head_merged(uint8_t *ret, const struct ctf_packet *k)
{
	struct head_common h;

	fill(&h, k, CTF_CLASS_MERGED);
	memcpy(ret, &h, sizeof(h));
}
