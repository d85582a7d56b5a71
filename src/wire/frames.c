/* SPDX-License-Identifier: MIT */

/*
 * Frames of a snapshot stream: see frames.h. The decoder trusts nothing: every number is checked
 * before it is used, and what it holds is bounded by its struct.
 */

#include "wire/frames.h"

#include <errno.h>
#include <string.h>

struct frame_head frame_head_make(
	enum frame_type type, uint32_t file, uint64_t offset, uint32_t len)
{
	return (struct frame_head){
		.magic = FRAME_MAGIC, .type = type, .file = file, .len = len, .offset = offset
	};
}

static bool plain_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || c == '-' || c == '.';
}

bool frame_name_valid(const char *name, size_t len)
{
	static const char *const fixed[] = { "report.json", "processes.json" };

	if (len == 0 || len > FRAME_NAME_MAX)
		return false;
	for (size_t i = 0; i < sizeof(fixed) / sizeof(*fixed); i++)
		if (strlen(fixed[i]) == len && memcmp(name, fixed[i], len) == 0)
			return true;
	if (len < 5 || memcmp(name, "ctf/", 4) != 0 || name[4] == '.')
		return false;
	for (size_t i = 4; i < len; i++)
		if (!plain_char(name[i]))
			return false;
	return true;
}

void frame_decoder_init(struct frame_decoder *d, const struct frame_ops *ops, void *arg)
{
	memset(d, 0, sizeof(*d));
	d->ops = ops;
	d->arg = arg;
}

static int head_check(const struct frame_decoder *d)
{
	const struct frame_head *h = &d->head;
	uint64_t size, end;

	if (h->magic != FRAME_MAGIC)
		return -EBADMSG;
	if (h->type == FRAME_ERROR)
		return h->len > 0 && h->len <= FRAME_TEXT_MAX ? 0 : -EBADMSG;
	if (d->planned == (h->type == FRAME_PLAN))
		return -EBADMSG; /* PLAN comes first, and once */
	switch (h->type) {
	case FRAME_PLAN:
		return h->len == 0 && h->file <= FRAME_FILES_MAX ? 0 : -EBADMSG;
	case FRAME_FILE:
		if (h->file != d->n_files || h->file >= FRAME_FILES_MAX)
			return -EBADMSG;
		return h->len > 0 && h->len <= FRAME_NAME_MAX ? 0 : -EBADMSG;
	case FRAME_DATA:
		if (h->file >= d->n_files || h->len == 0 || h->len > FRAME_DATA_MAX)
			return -EBADMSG;
		size = d->size[h->file];
		end = d->end[h->file];
		if (size == FRAME_SIZE_UNKNOWN)
			return h->offset <= end ? 0 : -EBADMSG;
		return h->offset <= size && h->len <= size - h->offset ? 0 : -EBADMSG;
	case FRAME_END:
		return h->len > 0 && h->len <= FRAME_TEXT_MAX ? 0 : -EBADMSG;
	default:
		return -EBADMSG;
	}
}

/* A whole name or text has come. */
static int text_done(struct frame_decoder *d)
{
	const struct frame_head *h = &d->head;

	d->text[h->len] = 0;
	if (memchr(d->text, 0, h->len))
		return -EBADMSG;
	switch (h->type) {
	case FRAME_FILE:
		if (!frame_name_valid(d->text, h->len))
			return -EBADMSG;
		d->size[d->n_files] = h->offset;
		d->end[d->n_files++] = 0;
		return d->ops->file ? d->ops->file(d->arg, h->file, d->text, h->offset) : 0;
	case FRAME_END:
		d->state = FRAME_ENDED;
		return d->ops->end ? d->ops->end(d->arg, d->text) : 0;
	default:
		d->state = FRAME_FAILED;
		return d->ops->error ? d->ops->error(d->arg, d->text) : 0;
	}
}

static int data_part(struct frame_decoder *d, const uint8_t *data, uint32_t len)
{
	const struct frame_head *h = &d->head;
	uint64_t at = h->offset + d->body_have;

	if (at + len > d->end[h->file])
		d->end[h->file] = at + len;
	return d->ops->data ? d->ops->data(d->arg, h->file, at, data, len) : 0;
}

static uint32_t smaller(size_t a, uint32_t b)
{
	return a < b ? (uint32_t)a : b;
}

int frame_decode(struct frame_decoder *d, const void *data, size_t len)
{
	const uint8_t *p = data;

	while (len > 0) {
		uint32_t n;
		int r = 0;

		if (d->state != FRAME_MORE)
			return -EBADMSG;
		if (d->head_have < sizeof(d->head)) {
			n = smaller(len, (uint32_t)sizeof(d->head) - d->head_have);
			memcpy((uint8_t *)&d->head + d->head_have, p, n);
			d->head_have += n;
			p += n;
			len -= n;
			if (d->head_have < sizeof(d->head))
				break;
			d->body_have = 0;
			r = head_check(d);
			if (r < 0)
				return r;
			if (d->head.type == FRAME_PLAN) {
				d->planned = true;
				d->head_have = 0;
				r = d->ops->plan
					    ? d->ops->plan(d->arg, d->head.file, d->head.offset)
					    : 0;
				if (r < 0)
					return r;
			}
			continue;
		}
		n = smaller(len, d->head.len - d->body_have);
		if (d->head.type == FRAME_DATA)
			r = data_part(d, p, n);
		else
			memcpy(d->text + d->body_have, p, n);
		if (r < 0)
			return r;
		d->body_have += n;
		p += n;
		len -= n;
		if (d->body_have < d->head.len)
			break;
		d->head_have = 0;
		if (d->head.type != FRAME_DATA)
			r = text_done(d);
		if (r < 0)
			return r;
	}
	return 0;
}
