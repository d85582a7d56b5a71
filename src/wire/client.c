/* SPDX-License-Identifier: MIT */
/*
 * See client.h. A description is written by a cursor that goes on counting after its room is used
 * up, so that measuring and writing are one piece of code.
 */

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <varve/abi.h>
#include "wire/client.h"

struct cursor {
	uint8_t *buf; /* NULL: only measure */
	size_t room, used;
	bool bad; /* something that the wire has no room for */
};

static void put(struct cursor *c, const void *data, size_t n)
{
	if (c->buf && n <= c->room - c->used && c->used <= c->room)
		memcpy(c->buf + c->used, data, n);
	c->used += n;
}

static void put_u8(struct cursor *c, uint8_t v)
{
	put(c, &v, sizeof(v));
}

static void put_u16(struct cursor *c, uint16_t v)
{
	put(c, &v, sizeof(v));
}

static void put_u32(struct cursor *c, uint32_t v)
{
	put(c, &v, sizeof(v));
}

static void put_u64(struct cursor *c, uint64_t v)
{
	put(c, &v, sizeof(v));
}

static bool is_word(unsigned char b)
{
	return (b >= 'a' && b <= 'z') || (b >= 'A' && b <= 'Z') || (b >= '0' && b <= '9') ||
	       b == '_';
}

static void put_name(struct cursor *c, const char *name, bool label)
{
	size_t n = name ? strnlen(name, WIRE_NAME_MAX + 1) : 0;

	if (n == 0 || n > WIRE_NAME_MAX) {
		c->bad = true;
		return;
	}
	for (size_t i = 0; i < n; i++) {
		unsigned char b = (unsigned char)name[i];

		if (label ? b < 0x20 || b == 0x7f : !is_word(b))
			c->bad = true;
	}
	put_u8(c, (uint8_t)n);
	put(c, name, n);
}

static void put_labels(struct cursor *c, const struct varve_field *f)
{
	if (f->n_labels == 0 || f->n_labels > WIRE_LABELS_MAX) {
		c->bad = true;
		return;
	}
	put_u16(c, f->n_labels);
	for (uint16_t i = 0; i < f->n_labels; i++) {
		put_u64(c, f->labels[i].low);
		put_u64(c, f->labels[i].high);
		put_name(c, f->labels[i].name, true);
	}
}

static void put_field(struct cursor *c, const struct varve_field *f)
{
	put_u8(c, f->type);
	put_u8(c, f->element);
	put_u32(c, f->length);
	put_name(c, f->name, false);
	if (f->type == VARVE_T_ENUM)
		put_labels(c, f);
}

ssize_t wire_event_write(const struct varve_event *e, uint8_t *buf, size_t room)
{
	const size_t most = WIRE_MESSAGE_MAX - sizeof(struct wire_events);
	struct cursor c = { .buf = buf, .room = room };

	if (e->size < sizeof(*e) || e->n_fields > WIRE_FIELDS_MAX)
		return 0;
	put_u8(&c, e->level);
	put_u8(&c, e->n_fields);
	put_name(&c, e->provider, false);
	put_name(&c, e->name, false);
	for (uint8_t i = 0; i < e->n_fields && !c.bad; i++)
		put_field(&c, &e->fields[i]);
	if (c.bad || c.used > most)
		return 0;
	return !buf || c.used <= room ? (ssize_t)c.used : -ENOSPC;
}

static struct wire_head head_make(enum wire_type type)
{
	return (struct wire_head){ WIRE_MAGIC, WIRE_VERSION, (uint16_t)type };
}

size_t wire_hello_write(uint8_t *buf, const struct wire_hello *h, const char *exe)
{
	struct wire_hello m = *h;

	m.head = head_make(WIRE_HELLO);
	m.exe_len = (uint32_t)strnlen(exe, WIRE_EXE_MAX);
	memcpy(buf, &m, sizeof(m));
	memcpy(buf + sizeof(m), exe, m.exe_len);
	return sizeof(m) + m.exe_len;
}

size_t wire_events_write(uint8_t *buf, uint32_t n, bool last)
{
	struct wire_events m = { head_make(WIRE_EVENTS), n, last };

	memcpy(buf, &m, sizeof(m));
	return sizeof(m);
}

/* The head of a reply of this type and, at least, this size. */
static int reply_check(const uint8_t *data, size_t size, enum wire_type type, size_t least)
{
	struct wire_head h;

	if (size < sizeof(h))
		return -EBADMSG;
	memcpy(&h, data, sizeof(h));
	if (h.magic != WIRE_MAGIC)
		return -EBADMSG;
	if (h.version != WIRE_VERSION)
		return -EPROTONOSUPPORT;
	return h.type == type && size >= least ? 0 : -EBADMSG;
}

int wire_welcome_read(const uint8_t *data, size_t size, struct wire_welcome *ret)
{
	int r = reply_check(data, size, WIRE_WELCOME, sizeof(*ret));

	if (r == 0)
		memcpy(ret, data, sizeof(*ret));
	return r;
}

int wire_ids_read(const uint8_t *data, size_t size, struct wire_ids *ret)
{
	int r = reply_check(data, size, WIRE_IDS, sizeof(*ret));

	if (r < 0)
		return r;
	memcpy(ret, data, sizeof(*ret));
	return ret->n == (size - sizeof(*ret)) / sizeof(uint32_t) &&
			       (size - sizeof(*ret)) % sizeof(uint32_t) == 0
		       ? 0
		       : -EBADMSG;
}

uint32_t wire_ids_get(const uint8_t *data, uint32_t i)
{
	uint32_t id;

	memcpy(&id, data + sizeof(struct wire_ids) + i * sizeof(id), sizeof(id));
	return id;
}
