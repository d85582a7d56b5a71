/* SPDX-License-Identifier: MIT */
/* Reading a pool of the fake daemon back: every packet is copied and verified as a daemon would. */
#include <inttypes.h>
#include <string.h>
#include <varve/abi.h>
#include "lib/test/fake-daemon.h"
#include "wire/event.h"

static int64_t signed_value(uint64_t v, uint32_t size)
{
	return (int64_t)(v << (64 - 8 * size)) >> (64 - 8 * size);
}

static void print_number(FILE *out, uint8_t type, const uint8_t *data)
{
	uint32_t size = wire_type_size(type);
	uint64_t v = 0;
	double d;
	float s;

	memcpy(&v, data, size);
	if (type == VARVE_T_F32) {
		memcpy(&s, data, sizeof(s));
		fprintf(out, "%g", (double)s);
	} else if (type == VARVE_T_F64) {
		memcpy(&d, data, sizeof(d));
		fprintf(out, "%g", d);
	} else if (type >= VARVE_T_X8 && type <= VARVE_T_X64) {
		fprintf(out, "0x%" PRIx64, v);
	} else if (type >= VARVE_T_I8 && type <= VARVE_T_I64) {
		fprintf(out, "%" PRId64, signed_value(v, size));
	} else {
		fprintf(out, "%" PRIu64, v);
	}
}

static void print_enum(FILE *out, const struct wire_field *f, const uint8_t *data)
{
	uint32_t size = wire_type_size(f->element);
	bool is_signed = f->element >= VARVE_T_I8 && f->element <= VARVE_T_I64;
	uint64_t v = 0;

	memcpy(&v, data, size);
	if (is_signed)
		v = (uint64_t)signed_value(v, size);
	for (uint32_t i = 0; i < f->n_labels; i++) {
		const struct wire_label *l = &f->labels[i];

		if (is_signed ? (int64_t)v >= (int64_t)l->low && (int64_t)v <= (int64_t)l->high
			      : v >= l->low && v <= l->high)
			fprintf(out, "%s:", l->name);
	}
	print_number(out, f->element, data);
}

/* Prints one field to out, if not NULL; its length, or SIZE_MAX if it does not fit. */
static size_t walk_field(const struct wire_field *f, const uint8_t *data, size_t room, FILE *out)
{
	size_t size = wire_type_size(f->type == VARVE_T_ENUM ? f->element : f->type), n = 1,
	       head = 0;
	uint16_t count;

	switch (f->type) {
	case VARVE_T_STR:
		size = strnlen((const char *)data, room) + 1;
		break;
	case VARVE_T_ARRAY:
		n = f->length;
		size = n * wire_type_size(f->element);
		break;
	case VARVE_T_TEXT:
		size = f->length;
		break;
	case VARVE_T_SEQ:
	case VARVE_T_TEXTSEQ:
		if (room < 2)
			return SIZE_MAX;
		memcpy(&count, data, 2);
		n = count;
		head = 2;
		size = 2 + n * (f->type == VARVE_T_SEQ ? wire_type_size(f->element) : 1);
		break;
	default:
		break;
	}
	if (size > room)
		return SIZE_MAX;
	if (!out)
		return size;
	fprintf(out, " %s=", f->name);
	if (f->type == VARVE_T_STR)
		fprintf(out, "\"%s\"", (const char *)data);
	else if (f->type == VARVE_T_TEXT)
		fprintf(out, "\"%.*s\"", (int)f->length, (const char *)data);
	else if (f->type == VARVE_T_TEXTSEQ)
		fprintf(out, "\"%.*s\"", (int)n, (const char *)data + 2);
	else if (f->type == VARVE_T_ENUM)
		print_enum(out, f, data);
	else if (f->type != VARVE_T_ARRAY && f->type != VARVE_T_SEQ)
		print_number(out, f->type, data);
	else
		for (size_t i = 0; i < n; i++) {
			fputs(i ? "," : "[", out);
			print_number(out, f->element, data + head + i * wire_type_size(f->element));
		}
	if (f->type == VARVE_T_ARRAY || f->type == VARVE_T_SEQ)
		fputs(n ? "]" : "[]", out);
	return size;
}

struct line {
	uint64_t ts, order;
	char *text;
};

struct dump {
	struct fake *fake;
	struct line *lines;
	size_t n, room;
	bool count_only;
};

static uint32_t body_len(void *arg, uint32_t id, const uint8_t *body, uint32_t avail)
{
	struct dump *d = arg;
	const struct wire_event *e = id < d->fake->n_layouts ? d->fake->layouts[id] : NULL;
	size_t used = sizeof(uint32_t);

	if (!e || avail < used)
		return 0;
	for (uint32_t i = 0; i < e->n_fields; i++) {
		size_t n = walk_field(&e->fields[i], body + used, avail - used, NULL);

		if (n == SIZE_MAX)
			return 0;
		used += n;
	}
	return (uint32_t)used;
}

static void add_line(void *arg, const struct ring_record *r)
{
	struct dump *d = arg;
	const struct wire_event *e = d->fake->layouts[r->id];
	size_t size, used = sizeof(uint32_t);
	uint32_t tid;
	struct line l = { .ts = r->ts, .order = d->n };
	FILE *out;

	d->n++;
	if (d->count_only)
		return;
	out = open_memstream(&l.text, &size);
	memcpy(&tid, r->body, sizeof(tid));
	fprintf(out, "%u %s:%s", tid, e->provider, e->name);
	for (uint32_t i = 0; i < e->n_fields; i++)
		used += walk_field(&e->fields[i], r->body + used, r->body_len - used, out);
	fclose(out);
	if (d->n > d->room) {
		d->room = d->n * 2;
		d->lines = realloc(d->lines, d->room * sizeof(*d->lines));
		fake_must(d->lines);
	}
	d->lines[d->n - 1] = l;
}

static int by_time(const void *a, const void *b)
{
	const struct line *l = a, *m = b;

	if (l->ts != m->ts)
		return l->ts < m->ts ? -1 : 1;
	return l->order < m->order ? -1 : l->order > m->order;
}

static void walk_pool(struct dump *d, struct fake_pool *p, uint32_t ch)
{
	struct ring_pool *r = &p->ring;
	struct ring_packet *packets = calloc(r->n_subs, sizeof(*packets));
	uint64_t cuts[POOL_STREAMS_MAX] = { 0 };
	uint8_t *copy = malloc(1 << 16);
	uint32_t n;

	fake_must(packets && copy);
	pthread_mutex_lock(&d->fake->lock);
	for (uint32_t i = 0; i < r->geometry.n_streams; i++)
		if (ring_line_exists(r, ch, i))
			ring_stream_records(r, ch, i, &cuts[i]);
	n = ring_list(r, ch, cuts, packets);
	for (uint32_t i = 0; i < n; i++) {
		uint64_t last;
		uint32_t n_records;

		if (ring_copy(r, &packets[i], copy) != 0)
			continue; /* overwritten meanwhile */
		fake_must(ring_verify(&packets[i], copy, UINT64_MAX, body_len, add_line, d,
				  &n_records, &last) == 0);
	}
	pthread_mutex_unlock(&d->fake->lock);
	free(packets);
	free(copy);
}

char *fake_records(struct fake *f, struct fake_pool *p, uint32_t ch)
{
	struct dump d = { .fake = f };
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	walk_pool(&d, p, ch);
	if (d.n)
		qsort(d.lines, d.n, sizeof(*d.lines), by_time);
	for (size_t i = 0; i < d.n; i++) {
		fprintf(out, "%s\n", d.lines[i].text);
		free(d.lines[i].text);
	}
	free(d.lines);
	fclose(out);
	return text;
}

uint64_t fake_count(struct fake *f, struct fake_pool *p, uint32_t ch)
{
	struct dump d = { .fake = f, .count_only = true };

	walk_pool(&d, p, ch);
	return d.n;
}

uint64_t fake_lost(struct fake_pool *p, uint32_t ch, enum lost_reason why)
{
	uint64_t sum[N_LOST_REASONS] = { 0 };

	for (uint32_t i = 0; i < p->ring.geometry.n_streams; i++)
		if (ring_line_exists(&p->ring, ch, i))
			ring_stream_lost(&p->ring, ch, i, sum);
	return sum[why];
}
