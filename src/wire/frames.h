/* SPDX-License-Identifier: MIT */
#ifndef VARVE_WIRE_FRAMES_H
#define VARVE_WIRE_FRAMES_H

/*
 * How a snapshot travels from the daemon to the command that asked for it.
 *
 * The daemon never opens the user's output. Behind the answer line of the control protocol it
 * sends frames; the receiver makes the files, with its own permissions, in a directory of its own
 * choice, and renames that when END came:
 *
 *   PLAN                  how much will come, for the progress line; first, once
 *   FILE 0, FILE 1, ...   announce a file: its number (from 0, ascending), name and size
 *   DATA, DATA, ...       bytes of an announced file at an offset, in any order, also again
 *   END                   the last: one JSON object for the caller; all is whole
 *   ERROR                 instead, at any time: one line for the user; keep nothing
 *
 * A file of known size has it from the start (what no DATA fills is zero); one of unknown size
 * grows at its end, and DATA may also go over what is there already. Numbers are in the byte order
 * of the machine.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FRAME_MAGIC	   0x6d724656u /* "VFrm" */
#define FRAME_FILES_MAX	   512u
#define FRAME_NAME_MAX	   63u	      /* bytes of a name, NUL not counted */
#define FRAME_DATA_MAX	   (1u << 20) /* bytes of one DATA */
#define FRAME_TEXT_MAX	   4096u      /* bytes of END's and ERROR's text */
#define FRAME_SIZE_UNKNOWN UINT64_MAX

enum frame_type { FRAME_PLAN = 1, FRAME_FILE, FRAME_DATA, FRAME_END, FRAME_ERROR };

struct frame_head {
	uint32_t magic;
	uint32_t type; /* enum frame_type */
	uint32_t file; /* FILE, DATA: number of the file; PLAN: how many files */
	uint32_t len;  /* bytes that follow: name, data or text */
	uint64_t
		offset; /* DATA: place in the file; FILE: size; PLAN: bytes of data to come, about */
};
_Static_assert(sizeof(struct frame_head) == 24, "fixed by the protocol");

/* The head of a frame; the len bytes are the caller's to send behind it. */
struct frame_head frame_head_make(
	enum frame_type type, uint32_t file, uint64_t offset, uint32_t len);

/* Whether name is one that a snapshot may have: report.json, processes.json, or ctf/ and a plain
 * file name. */
bool frame_name_valid(const char *name, size_t len);

/* What a receiver does with frames. Each returns 0, or -errno to stop; those that are NULL pass. */
struct frame_ops {
	int (*plan)(void *arg, uint32_t n_files, uint64_t n_bytes);
	int (*file)(void *arg, uint32_t file, const char *name, uint64_t size);
	/* Bytes come as they arrive: one DATA may become several calls. */
	int (*data)(void *arg, uint32_t file, uint64_t offset, const void *data, size_t len);
	int (*end)(void *arg, const char *json);
	int (*error)(void *arg, const char *line);
};

enum frame_state { FRAME_MORE, FRAME_ENDED, FRAME_FAILED };

/* A decoder: keeps one head and one text, never data. About 13 KiB: mind the stack. */
struct frame_decoder {
	const struct frame_ops *ops;
	void *arg;
	enum frame_state state;
	bool planned;
	struct frame_head head;
	uint32_t head_have;
	uint32_t body_have;
	char text[FRAME_TEXT_MAX + 1]; /* name, or text of END and ERROR */
	uint32_t n_files;
	uint64_t size[FRAME_FILES_MAX]; /* announced, or FRAME_SIZE_UNKNOWN */
	uint64_t end[FRAME_FILES_MAX];	/* how far a file of unknown size has come */
};

void frame_decoder_init(struct frame_decoder *d, const struct frame_ops *ops, void *arg);

/*
 * Takes len more bytes of the stream. 0: all taken, look at d->state; -EBADMSG: not frames, or out
 * of order, or behind END; else what a callback returned. After an error the decoder is done with.
 */
int frame_decode(struct frame_decoder *d, const void *data, size_t len);

#endif
