/* SPDX-License-Identifier: MIT */
#ifndef VARVE_CTF_METADATA_H
#define VARVE_CTF_METADATA_H

/*
 * The text metadata of a CTF 1.8 trace: the description that lets any reader decode the packets of
 * packet.h, whose records are those of the ring as they lie in memory.
 *
 * Written front to back to a stdio stream: ctf_metadata_head() once, then ctf_metadata_event() for
 * each event and stream class that the trace has. Errors stay in the stream (ferror()).
 *
 * Names come from programs. None can break the grammar: fields get a leading underscore, which
 * readers strip, and a number where two would be equal; texts are escaped; what a reader would
 * refuse (an empty enumeration, a label that its type cannot hold) is left out.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "wire/wire.h"

/* Stream classes. */
#define CTF_CLASS_PROCESS 0u /* a packet is of one process: its identity is in the packet context */
#define CTF_CLASS_MERGED  1u /* records of many processes: the identity is in each event's context */

struct ctf_trace {
	uint8_t uuid[16];
	bool merged;					 /* there are streams of CTF_CLASS_MERGED */
	const char *hostname, *session, *tracer_version; /* version as MAJOR.MINOR.PATCH */
	const char *clock_name;				 /* an identifier */
	const char *clock_description;
	uint64_t clock_freq;	/* Hz */
	int64_t clock_offset_s; /* ns of the epoch = 1e9 * (offset_s + (offset + ticks) / freq) */
	uint64_t clock_offset;	/* ticks, below freq */
};

void ctf_metadata_head(FILE *f, const struct ctf_trace *t);

/* One event, for one stream class. */
void ctf_metadata_event(FILE *f, uint32_t id, uint32_t stream_class, const struct wire_event *e);

/* offset_s and offset of a clock that showed ticks at unix_ns. */
void ctf_clock_offset(uint64_t freq, uint64_t ticks, uint64_t unix_ns, int64_t *ret_offset_s,
	uint64_t *ret_offset);

#endif
