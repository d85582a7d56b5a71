/* SPDX-License-Identifier: MIT */
#ifndef VARVE_CTF_MERGE_H
#define VARVE_CTF_MERGE_H

/*
 * Merges the records of many packets by time into packets of CTF_CLASS_MERGED, in which each event
 * carries the identity of its process. Records have been verified; order within a source stays.
 */

#include <stddef.h>
#include <stdint.h>
#include "ring/ring.h"

/* Records grow by this much at most: an extended head for a compact one, and the identity. */
#define CTF_MERGED_GROWTH 36u
#define CTF_MERGE_BUFFER  65536u

struct ctf_merge_source {
	const uint8_t *records; /* borrowed; verified, whole records */
	uint32_t len;
	uint64_t begin_ts; /* what the first compact time counts from */
	uint32_t cpu, pid, uid;
	char name[16]; /* zero-padded */
};

/* Called for each packet that is ready; 0, or -errno to stop. */
typedef int ctf_merge_fn(void *arg, const void *packet, size_t len);

struct ctf_merge {
	const uint8_t *uuid; /* of the trace, borrowed */
	uint64_t stream;     /* instance */
	uint64_t seq;	     /* of the first packet */
	ring_body_len_fn *body_len;
	void *body_len_arg;
	ctf_merge_fn *out;
	void *out_arg;
	uint8_t *buffer; /* CTF_MERGE_BUFFER bytes, the caller's */
};

/* Merges n sources into one stream. 0, -ENOMEM, -EBADMSG (a source was not verified), or what out
 * returned. */
int ctf_merge(const struct ctf_merge *m, const struct ctf_merge_source *sources, uint32_t n);

#endif
