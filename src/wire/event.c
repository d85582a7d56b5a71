/* SPDX-License-Identifier: MIT */
/*
 * Event descriptions: from bytes of a peer to one block of memory, and comparing them.
 *
 * The bytes are walked twice by the same code: once to check all and to count the memory, once to
 * fill it. Only the first walk can fail.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "varve/abi.h"
#include "wire/event.h"

struct reader {
	const uint8_t *data;
	size_t size, pos;
	bool bad;
	char *block; /* NULL while counting */
	size_t used; /* bytes of the block */
};

static void *block_take(struct reader *r, size_t size, size_t align)
{
	void *at;

	r->used = (r->used + align - 1) & ~(align - 1);
	at = r->block ? r->block + r->used : NULL;
	r->used += size;
	return at;
}

static const uint8_t *bytes_take(struct reader *r, size_t n)
{
	const uint8_t *at = r->data + r->pos;

	if (r->bad || n > r->size - r->pos) {
		r->bad = true;
		return NULL;
	}
	r->pos += n;
	return at;
}

static uint64_t number_take(struct reader *r, size_t n)
{
	const uint8_t *at = bytes_take(r, n);
	uint64_t v = 0;

	if (!at)
		return 0;
	if (n == 1)
		return *at;
	if (n == 2) {
		uint16_t v16;

		memcpy(&v16, at, 2);
		return v16;
	}
	if (n == 4) {
		uint32_t v32;

		memcpy(&v32, at, 4);
		return v32;
	}
	memcpy(&v, at, 8);
	return v;
}

static bool name_char(uint8_t c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_';
}

static bool label_char(uint8_t c)
{
	return c >= 0x20 && c < 0x7f;
}

static const char *name_take(struct reader *r, bool (*fits)(uint8_t))
{
	size_t len = number_take(r, 1);
	const uint8_t *from = bytes_take(r, len);
	char *to;

	if (!from || len == 0 || len > WIRE_NAME_MAX) {
		r->bad = true;
		return NULL;
	}
	for (size_t i = 0; i < len; i++)
		if (!fits(from[i]))
			r->bad = true;
	to = block_take(r, len + 1, 1);
	if (to) {
		memcpy(to, from, len);
		to[len] = '\0';
	}
	return to;
}

uint32_t wire_type_size(uint8_t type)
{
	switch (type) {
	case VARVE_T_U8:
	case VARVE_T_I8:
	case VARVE_T_X8:
	case VARVE_T_BOOL:
		return 1;
	case VARVE_T_U16:
	case VARVE_T_I16:
	case VARVE_T_X16:
		return 2;
	case VARVE_T_U32:
	case VARVE_T_I32:
	case VARVE_T_X32:
	case VARVE_T_F32:
		return 4;
	case VARVE_T_U64:
	case VARVE_T_I64:
	case VARVE_T_X64:
	case VARVE_T_F64:
		return 8;
	default:
		return 0;
	}
}

static bool type_is_integer(uint8_t type)
{
	return type >= VARVE_T_U8 && type <= VARVE_T_X64;
}

/* Whether type, element and length go together. */
static bool field_valid(uint8_t type, uint8_t element, uint32_t length)
{
	switch (type) {
	case VARVE_T_ARRAY:
		return wire_type_size(element) && length > 0 &&
		       length <= RECORD_BODY_MAX / wire_type_size(element);
	case VARVE_T_SEQ:
		return wire_type_size(element) && length == 0;
	case VARVE_T_TEXT:
		return element == 0 && length > 0 && length <= RECORD_BODY_MAX;
	case VARVE_T_ENUM:
		return type_is_integer(element) && length == 0;
	case VARVE_T_STR:
	case VARVE_T_TEXTSEQ:
		return element == 0 && length == 0;
	default:
		return wire_type_size(type) && element == 0 && length == 0;
	}
}

static bool label_valid(uint8_t element, uint64_t low, uint64_t high)
{
	uint32_t bits = wire_type_size(element) * 8;
	bool is_signed = element >= VARVE_T_I8 && element <= VARVE_T_I64;

	if (is_signed) {
		int64_t max = (int64_t)((UINT64_C(1) << (bits - 1)) - 1);

		return (int64_t)low <= (int64_t)high && (int64_t)high <= max &&
		       (int64_t)low >= -max - 1;
	}
	return low <= high && (bits == 64 || high >> bits == 0);
}

static void labels_take(struct reader *r, struct wire_field *f)
{
	f->n_labels = (uint32_t)number_take(r, 2);
	if (f->n_labels == 0 || f->n_labels > WIRE_LABELS_MAX) {
		r->bad = true;
		return;
	}
	f->labels = block_take(r, f->n_labels * sizeof(*f->labels), _Alignof(struct wire_label));
	for (uint32_t i = 0; i < f->n_labels && !r->bad; i++) {
		struct wire_label l;

		l.low = number_take(r, 8);
		l.high = number_take(r, 8);
		l.name = name_take(r, label_char);
		if (!label_valid(f->element, l.low, l.high))
			r->bad = true;
		if (f->labels)
			f->labels[i] = l;
	}
}

static struct wire_field field_take(struct reader *r)
{
	struct wire_field f = { 0 };

	f.type = (uint8_t)number_take(r, 1);
	f.element = (uint8_t)number_take(r, 1);
	f.length = (uint32_t)number_take(r, 4);
	f.name = name_take(r, name_char);
	if (!field_valid(f.type, f.element, f.length))
		r->bad = true;
	if (!r->bad && f.type == VARVE_T_ENUM)
		labels_take(r, &f);
	return f;
}

static struct wire_event *event_take(struct reader *r)
{
	struct wire_event *e = block_take(r, sizeof(*e), _Alignof(struct wire_event));
	struct wire_event v = { 0 };

	v.level = (uint8_t)number_take(r, 1);
	v.n_fields = (uint32_t)number_take(r, 1);
	if (v.level > VARVE_DEBUG || v.n_fields > WIRE_FIELDS_MAX)
		r->bad = true;
	v.fields = block_take(r, v.n_fields * sizeof(*v.fields), _Alignof(struct wire_field));
	v.provider = name_take(r, name_char);
	v.name = name_take(r, name_char);
	for (uint32_t i = 0; i < v.n_fields && !r->bad; i++) {
		struct wire_field f = field_take(r);

		if (v.fields)
			v.fields[i] = f;
	}
	if (e)
		*e = v;
	return e;
}

/* A trace with two fields of one name in an event cannot be read. */
static bool field_names_differ(const struct wire_event *e)
{
	for (uint32_t i = 1; i < e->n_fields; i++)
		for (uint32_t j = 0; j < i; j++)
			if (strcmp(e->fields[i].name, e->fields[j].name) == 0)
				return false;
	return true;
}

int wire_event_parse(const uint8_t *data, size_t size, size_t *pos, struct wire_event **ret_event)
{
	struct reader count = { .data = data, .size = size, .pos = *pos };
	struct reader fill = count;
	struct wire_event *e;

	if (*pos > size)
		return -EBADMSG;
	event_take(&count);
	if (count.bad)
		return -EBADMSG;
	fill.block = malloc(count.used);
	if (!fill.block)
		return -ENOMEM;
	e = event_take(&fill);
	if (!field_names_differ(e)) {
		free(fill.block);
		return -EBADMSG;
	}
	*pos = fill.pos;
	*ret_event = e;
	return 0;
}

size_t wire_event_size(const struct wire_event *e)
{
	size_t n = sizeof(*e) + strlen(e->provider) + strlen(e->name) + 2;

	for (uint32_t i = 0; i < e->n_fields; i++) {
		const struct wire_field *f = &e->fields[i];

		n += sizeof(*f) + strlen(f->name) + 1;
		for (uint32_t j = 0; j < f->n_labels; j++)
			n += sizeof(f->labels[j]) + strlen(f->labels[j].name) + 1;
	}
	return n;
}

static bool labels_equal(const struct wire_label *a, const struct wire_label *b, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (a[i].low != b[i].low || a[i].high != b[i].high ||
			strcmp(a[i].name, b[i].name) != 0)
			return false;
	return true;
}

bool wire_event_equal(const struct wire_event *a, const struct wire_event *b)
{
	if (a->level != b->level || a->n_fields != b->n_fields ||
		strcmp(a->provider, b->provider) != 0 || strcmp(a->name, b->name) != 0)
		return false;
	for (uint32_t i = 0; i < a->n_fields; i++) {
		const struct wire_field *f = &a->fields[i], *g = &b->fields[i];

		if (f->type != g->type || f->element != g->element || f->length != g->length ||
			f->n_labels != g->n_labels || strcmp(f->name, g->name) != 0 ||
			!labels_equal(f->labels, g->labels, f->n_labels))
			return false;
	}
	return true;
}

static uint64_t hash_bytes(uint64_t h, const void *data, size_t n)
{
	for (const uint8_t *p = data; n > 0; n--)
		h = (h ^ *p++) * UINT64_C(0x100000001b3); /* FNV-1a */
	return h;
}

/* Names, types and lengths are enough: layouts that differ in labels alone are rare. */
uint64_t wire_event_hash(const struct wire_event *e)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	h = hash_bytes(h, e->provider, strlen(e->provider) + 1);
	h = hash_bytes(h, e->name, strlen(e->name) + 1);
	h = hash_bytes(h, &e->level, 1);
	for (uint32_t i = 0; i < e->n_fields; i++) {
		const struct wire_field *f = &e->fields[i];

		h = hash_bytes(h, &f->type, 1);
		h = hash_bytes(h, &f->element, 1);
		h = hash_bytes(h, &f->length, sizeof(f->length));
		h = hash_bytes(h, f->name, strlen(f->name) + 1);
	}
	return h;
}
