/* SPDX-License-Identifier: MIT */
#ifndef VARVE_DAEMON_SNAPSHOT_WRITER_H
#define VARVE_DAEMON_SNAPSHOT_WRITER_H

/*
 * The worker of a snapshot, as its files share it:
 *
 *   write.c   what comes after what; lanes; what is told at the end
 *   load.c    one packet, copied and checked
 *   plan.c    which packet goes where
 *   merge.c   packets that have no lane
 *
 * One buffer holds one packet:   | room for heads | copy of the sub-buffer: its header, records |
 * and the CTF head is written so that it ends where the records to keep begin.
 */

#include <stdbool.h>
#include <stdint.h>
#include "ctf/packet.h"
#include "daemon/snapshot/data.h"
#include "daemon/snapshot/sink.h"

#define WRITER_HEAD_ROOM (CTF_HEAD_PROCESS - SUB_HEADER_SIZE)

#define LANES_MAX  440u /* with the merged files below 500: readers hold all open */
#define GROUPS_MAX 40u	/* merged files, if groups were full; a third more at most */

struct lane {
	uint64_t size; /* of the file, bytes */
	uint32_t n;    /* packets */
	bool starter;  /* an empty packet in front, so that losses in the first can be told */
};

struct merged_file {
	int file;      /* its number, or -1: none was needed */
	uint64_t last; /* offset of the last packet */
};

struct writer {
	struct snapshot *sn;
	struct sink sink;
	uint8_t *buffer; /* WRITER_HEAD_ROOM, then the largest sub-buffer */
	uint8_t *seen;	 /* by event id from ids_first: 1 << stream class */
	struct lane *lanes;
	uint32_t n_lanes;
	uint32_t *order; /* indexes of packets */
	uint32_t n_order;
	uint64_t merged_bytes;
	uint32_t copy_room; /* for one copy; of the largest packet at least */
	uint32_t n_groups;
	struct merged_file merged[2 * GROUPS_MAX]; /* n_groups of them */
};

/* What a look at one verified copy found. */
struct look {
	struct writer *w;
	const uint8_t *copy;
	uint8_t classes; /* stream classes that it is for: bits */
	uint64_t since;	 /* keep nothing older */
	uint32_t n, trimmed;
	uint32_t from; /* offset of the first record to keep */
	uint64_t first_ts, last_ts;
};

/* Where copies go: room for w->copy_room bytes, with room for a head in front. */
uint8_t *writer_copy(struct writer *w);

/*
 * Copies a packet to copy, lets go of it, and checks the copy; marks its events as seen in stream
 * classes (bits). True if it is good; else its outcome is written down.
 */
bool writer_load(struct writer *w, struct snapshot_packet *k, uint8_t *copy, uint8_t classes,
	struct look *l);
/* Writes down that a packet is kept, as it was found. */
void writer_keep(struct snapshot_packet *k, const struct look *l);
/* A ring_body_len_fn; arg is a struct look of which w is set. */
uint32_t writer_body_len(void *arg, uint32_t id, const uint8_t *body, uint32_t avail);

/* Gives every packet that is wanted its place. 0 or -errno. */
int writer_plan(struct writer *w);
/* Of the CTF packet that a packet becomes in a lane: where it ends, and its size. */
uint64_t writer_packet_end(const struct snapshot *sn, const struct snapshot_packet *k);
uint32_t writer_packet_size(const struct snapshot_packet *k);

/* Sends the packets that have no lane, in the order of w->order. 0 or -errno. */
int writer_merge(struct writer *w);

#endif
