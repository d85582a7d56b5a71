/* SPDX-License-Identifier: MIT */
#ifndef VARVE_CTF_PACKET_H
#define VARVE_CTF_PACKET_H

/*
 * Packets of a CTF 1.8 trace. The records of a sub-buffer are valid CTF as they lie; what
 * differs is the head in front, made here. Both heads end on a byte, and so do packets: nothing is
 * ever aligned.
 */

#include <stdint.h>

#define CTF_HEAD_PROCESS  112u /* bytes of the head of a packet of CTF_CLASS_PROCESS */
#define CTF_HEAD_MERGED	  80u
#define CTF_BEGIN_OFF	  32u /* where timestamp_begin (u64) lies in both heads */
#define CTF_DISCARDED_OFF 72u /* and events_discarded (u64) */

struct ctf_packet {
	const uint8_t *uuid; /* 16 bytes: the trace's */
	uint64_t stream;     /* stream instance: one per file */
	uint64_t ts_begin, ts_end;
	uint64_t content, size; /* bytes, head included; the rest up to size is padding */
	uint64_t seq, discarded;
	/* CTF_CLASS_PROCESS only: */
	uint32_t cpu, pid, uid, gen;
	const char *name; /* at most 16 bytes count */
};

/* Fills a head of CTF_HEAD_PROCESS bytes. */
void ctf_packet_head(uint8_t *ret, const struct ctf_packet *k);

/* Fills a head of CTF_HEAD_MERGED bytes. */
void ctf_packet_head_merged(uint8_t *ret, const struct ctf_packet *k);

#endif
