/* SPDX-License-Identifier: MIT */

/*
 * Makes a trace of random records of all field types, through everything that src/ctf offers, and
 * prints what a reader must find in it: one JSON object per record. test-trace.py compares.
 *
 *   test-make-trace DIR SEED
 */

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctf/lanes.h"
#include "ctf/merge.h"
#include "ctf/metadata.h"
#include "ctf/packet.h"
#include "ctf/record.h"
#include "varve/abi.h"

#define N_PACKETS 60
#define FREQ	  UINT64_C(2095995123)

static const uint8_t uuid[16] = { 0x2a, 0x64, 0x22, 0xd0, 0x6c, 0xee, 0x41, 0xe0, 0x8c, 0x08, 0xcb,
	0x07, 0xd7, 0xb3, 0xa5, 0x64 };
static uint64_t rng;

static uint64_t rnd(void)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return rng;
}

/* --- layouts ---------------------------------------------------------------------------------- */

static struct wire_label states[] = { { 0, 0, "idle" }, { 1, 5, "busy \"and\" \\ more" },
	{ 3, 9, "overlaps" }, { 200, 250, "\xc3\xa9t\xc3\xa9" }, { 300, 300, "too large" },
	{ 9, 2, "backwards" }, { 20, 20, "idle" } };
static struct wire_label signs[] = { { (uint64_t)INT64_MIN, (uint64_t)-2, "negative" },
	{ (uint64_t)-1, 1, "small; }; event {" }, { 2, INT64_MAX, "positive" } };
static struct wire_label wide[] = { { 0, UINT64_MAX - 1, "most" },
	{ UINT64_MAX, UINT64_MAX, "all ones" } };
static struct wire_label none[] = { { 1000, 2000, "does not fit" } };

#define F(t, n)                                                                                    \
	{                                                                                          \
		.type = t, .name = n                                                               \
	}
static struct wire_field scalars[] = { F(VARVE_T_U8, "a"), F(VARVE_T_U16, "b"), F(VARVE_T_U32, "c"),
	F(VARVE_T_U64, "d"), F(VARVE_T_I8, "e"), F(VARVE_T_I16, "f"), F(VARVE_T_I32, "g"),
	F(VARVE_T_I64, "h"), F(VARVE_T_X8, "i"), F(VARVE_T_X16, "j"), F(VARVE_T_X32, "k"),
	F(VARVE_T_X64, "l"), F(VARVE_T_BOOL, "m"), F(VARVE_T_F32, "n"), F(VARVE_T_F64, "o") };
static struct wire_field texts[] = { F(VARVE_T_STR, "string"),
	{ VARVE_T_TEXT, 0, 16, "fixed", 0, NULL }, F(VARVE_T_TEXTSEQ, "counted"),
	F(VARVE_T_STR, "event") };
static struct wire_field arrays[] = { { VARVE_T_ARRAY, VARVE_T_I32, 3, "three", 0, NULL },
	{ VARVE_T_SEQ, VARVE_T_X8, 0, "bytes", 0, NULL },
	{ VARVE_T_SEQ, VARVE_T_F64, 0, "f", 0, NULL },
	{ VARVE_T_ARRAY, VARVE_T_F32, 1, "one", 0, NULL },
	{ VARVE_T_ARRAY, VARVE_T_U64, 0, "zero", 0, NULL } };
static struct wire_field enums[] = { { VARVE_T_ENUM, VARVE_T_U8, 0, "state", 7, states },
	{ VARVE_T_ENUM, VARVE_T_I64, 0, "sign", 3, signs },
	{ VARVE_T_ENUM, VARVE_T_U64, 0, "wide", 2, wide },
	{ VARVE_T_ENUM, VARVE_T_U8, 0, "bare", 1, none } };
/* Names made to break things: keywords, equal ones, ones that collide with what is derived. */
static struct wire_field hostile[] = { F(VARVE_T_U8, "struct"), F(VARVE_T_U8, "same"),
	F(VARVE_T_U8, "same"), F(VARVE_T_U8, "same_2"), F(VARVE_T_U8, "_x_length"),
	{ VARVE_T_SEQ, VARVE_T_U8, 0, "x", 0, NULL }, F(VARVE_T_U8, "1st"), F(VARVE_T_U8, ""),
	F(VARVE_T_U8, "};\n"), F(VARVE_T_U8, "uint8_t"), F(VARVE_T_U8, "u8"), F(VARVE_T_U8, "_"),
	F(VARVE_T_U8, "timestamp") };

#define E(l, p, n, f)                                                                              \
	{                                                                                          \
		l, sizeof(f) / sizeof(*f), p, n, f                                                 \
	}
static const struct {
	uint32_t id;
	struct wire_event e;
} events[] = {
	{ 1, E(VARVE_INFO, "all", "scalars", scalars) },
	{ 2, E(VARVE_DEBUG, "all", "texts", texts) },
	{ 65534, E(VARVE_EMERG, "all", "arrays", arrays) },
	{ 65535, E(VARVE_ERR, "all", "enums", enums) },
	{ 1048575, E(VARVE_INFO, "hostile", "names\"};\\", hostile) },
	{ 7, { VARVE_INFO, 0, "all", "nothing", NULL } },
};
#define N_EVENTS (sizeof(events) / sizeof(*events))

static uint32_t body_len(void *arg, uint32_t id, const uint8_t *body, uint32_t avail)
{
	for (size_t i = 0; i < N_EVENTS; i++)
		if (events[i].id == id)
			return ctf_body_len(&events[i].e, body, avail);
	return 0;
}

/* --- values: into the record and, as JSON, into the expectation -------------------------------- */

static uint8_t *value(uint8_t *to, uint8_t type, FILE *json)
{
	uint64_t v = rnd() >> (rnd() & 63);
	float f = (float)(int32_t)v / 7;
	double d = (double)(int64_t)v / 11;

	switch (type) {
#define INTEGER(T, ctype, fmt)                                                                     \
	case VARVE_T_##T: {                                                                        \
		ctype x = (ctype)v;                                                                \
		fprintf(json, fmt, x);                                                             \
		memcpy(to, &x, sizeof(x));                                                         \
		return to + sizeof(x);                                                             \
	}
		INTEGER(U8, uint8_t, "%" PRIu8)
		INTEGER(U16, uint16_t, "%" PRIu16)
		INTEGER(U32, uint32_t, "%" PRIu32)
		INTEGER(U64, uint64_t, "%" PRIu64)
		INTEGER(I8, int8_t, "%" PRId8)
		INTEGER(I16, int16_t, "%" PRId16)
		INTEGER(I32, int32_t, "%" PRId32)
		INTEGER(I64, int64_t, "%" PRId64)
		INTEGER(X8, uint8_t, "%" PRIu8)
		INTEGER(X16, uint16_t, "%" PRIu16)
		INTEGER(X32, uint32_t, "%" PRIu32)
		INTEGER(X64, uint64_t, "%" PRIu64)
	case VARVE_T_BOOL:
		*to = v & 1;
		fprintf(json, "%d", *to);
		return to + 1;
	case VARVE_T_F32:
		memcpy(to, &f, sizeof(f));
		fprintf(json, "%.17g", (double)f);
		return to + sizeof(f);
	case VARVE_T_F64:
		memcpy(to, &d, sizeof(d));
		fprintf(json, "%.17g", d);
		return to + sizeof(d);
	default:
		abort();
	}
}

/* n bytes of text, no NUL, no byte that JSON would want escaped. */
static uint8_t *text(uint8_t *to, uint32_t n, FILE *json)
{
	putc('"', json);
	for (uint32_t i = 0; i < n; i++)
		putc(*to++ = (uint8_t) "abcxyz {}%$;:"[rnd() % 13], json);
	putc('"', json);
	return to;
}

static uint8_t *field(uint8_t *to, const struct wire_field *f, FILE *json)
{
	uint16_t n = (uint16_t)(rnd() % 12);
	const uint8_t *start = to;

	switch (f->type) {
	case VARVE_T_STR:
		to = text(to, n, json);
		*to++ = 0;
		return to;
	case VARVE_T_TEXT:
		to = text(to, n, json);
		memset(to, 0, f->length - n);
		return to + (f->length - n);
	case VARVE_T_TEXTSEQ:
		memcpy(to, &n, 2);
		fprintf(json, "%u,", n);
		return text(to + 2, n, json);
	case VARVE_T_SEQ:
		memcpy(to, &n, 2);
		fprintf(json, "%u,", n);
		to += 2;
		start = to;
		putc('[', json);
		for (uint32_t i = 0; i < n; i++) {
			fputs(to != start ? "," : "", json);
			to = value(to, f->element, json);
		}
		putc(']', json);
		return to;
	case VARVE_T_ARRAY:
		putc('[', json);
		for (uint32_t i = 0; i < f->length; i++) {
			fputs(to != start ? "," : "", json);
			to = value(to, f->element, json);
		}
		putc(']', json);
		return to;
	case VARVE_T_ENUM:
		return value(to, f->element, json);
	default:
		return value(to, f->type, json);
	}
}

/* --- packets ---------------------------------------------------------------------------------- */

struct made {
	uint64_t begin, end;
	uint32_t cpu, pid, uid, gen;
	char name[16];
	uint8_t records[65536];
	uint32_t len, discarded;
};
static struct made packets[N_PACKETS];

static void fill_packet(struct made *k, uint32_t i)
{
	uint32_t n = (uint32_t)(rnd() % 40);
	uint64_t ts;

	k->begin = ts = UINT64_C(10000000000) + (rnd() % 50) * 1000000;
	k->cpu = i % 4;
	k->pid = 1000 + i;
	k->uid = (uint32_t)(rnd() % 3) * 1000;
	k->gen = i;
	k->discarded = rnd() % 4 == 0 ? (uint32_t)(rnd() % 100) : 0;
	memcpy(k->name, "process-", 8);
	for (uint32_t c = 8; c < 8 + i % 8; c++)
		k->name[c] = '#';
	for (uint32_t r = 0; r < n; r++) {
		uint32_t which = (uint32_t)(rnd() % N_EVENTS), id = events[which].id, vtid, len;
		const struct wire_event *e = &events[which].e;
		uint64_t step = rnd() % 100000;
		uint8_t *at = k->records + k->len, *body;

		if (rnd() % 50 == 0)
			step = UINT32_MAX +
			       rnd() % 2; /* the last compact one, the first that is not */
		ts += step;
		if (id >= RECORD_ESCAPE || step > UINT32_MAX) {
			uint16_t escape = RECORD_ESCAPE;

			memcpy(at, &escape, 2);
			memcpy(at + 2, &id, 4);
			memcpy(at + 6, &ts, 8);
			body = at + RECORD_EXTENDED;
		} else {
			memcpy(at, &id, 2);
			memcpy(at + 2, &ts, 4);
			body = at + RECORD_COMPACT;
		}
		vtid = k->pid + (uint32_t)(rnd() % 5);
		memcpy(body, &vtid, 4);
		printf("{\"ts\":%" PRIu64
		       ",\"cpu_id\":%u,\"vpid\":%u,\"uid\":%u,\"procname\":\"%.16s\","
		       "\"vtid\":%u,\"event\":%u,\"fields\":[",
			ts, k->cpu, k->pid, k->uid, k->name, vtid, which);
		at = body + CTF_CONTEXT_SIZE;
		for (uint32_t f = 0; f < e->n_fields; f++) {
			fputs(f ? "," : "", stdout);
			at = field(at, &e->fields[f], stdout);
		}
		puts("]}");
		len = (uint32_t)(at - body);
		/* The walk finds the very end, and refuses one byte less. */
		assert(ctf_body_len(e, body, len) == len);
		assert(ctf_body_len(e, body, len - 1) == 0);
		k->len = (uint32_t)(at - k->records);
	}
	k->end = ts + rnd() % 1000;
}

static FILE *stream_file(const char *dir, const char *name, uint32_t n)
{
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s%u", dir, name, n);
	f = fopen(path, "w");
	assert(f);
	return f;
}

static int out(void *arg, const void *packet, size_t len)
{
	return fwrite(packet, 1, len, arg) == len ? 0 : -1;
}

int main(int argc, char **argv)
{
	static struct ctf_span spans[N_PACKETS];
	static struct ctf_merge_source sources[N_PACKETS];
	static uint8_t buffer[CTF_MERGE_BUFFER];
	uint32_t order[N_PACKETS], n_sources = 0;
	struct ctf_trace t = { .merged = true,
		.hostname = "host \"name\" \xc3\xa9",
		.session = "s",
		.tracer_version = "0.1.2",
		.clock_name = "tsc",
		.clock_description = "time-stamp \\ counter",
		.clock_freq = FREQ };
	int n_lanes;
	FILE *f;

	if (argc != 3)
		return 2;
	rng = strtoull(argv[2], NULL, 0) * UINT64_C(0x9e3779b97f4a7c15) + 1;
	for (uint32_t i = 0; i < N_PACKETS; i++) {
		fill_packet(&packets[i], i);
		spans[i] = (struct ctf_span){ packets[i].begin, packets[i].end, packets[i].len, 0 };
	}
	n_lanes = ctf_lanes_plan(spans, order, N_PACKETS, 10);
	assert(n_lanes > 0 && n_lanes <= 10);
	for (uint32_t l = 0; l < (uint32_t)n_lanes; l++) {
		uint64_t seq = 0, discarded = 0, end = 0;

		f = stream_file(argv[1], "lane_", l);
		for (uint32_t i = 0; i < N_PACKETS; i++) {
			const struct made *k = &packets[order[i]];
			uint32_t pad = (uint32_t)(rnd() % 5000);
			uint8_t head[CTF_HEAD_PROCESS];

			if (spans[order[i]].lane != l)
				continue;
			assert(k->begin >= end);
			end = k->end;
			/* Readers take what the first packet says for a start, not for losses. */
			discarded += seq > 0 ? k->discarded : 0;
			struct ctf_packet c = { uuid, l, k->begin, k->end,
				CTF_HEAD_PROCESS + k->len, CTF_HEAD_PROCESS + k->len + pad, seq++,
				discarded, k->cpu, k->pid, k->uid, k->gen, k->name };

			ctf_packet_head(head, &c);
			fwrite(head, 1, sizeof(head), f);
			fwrite(k->records, 1, k->len, f);
			while (pad-- > 0)
				putc(0xff, f);
		}
		fprintf(stderr, "lane %u %" PRIu64 " %" PRIu64 "\n", l, seq, discarded);
		fclose(f);
	}
	for (uint32_t i = 0; i < N_PACKETS; i++) {
		const struct made *k = &packets[i];

		if (spans[i].lane != CTF_LANE_MERGED)
			continue;
		sources[n_sources] = (struct ctf_merge_source){ k->records, k->len, k->begin,
			k->cpu, k->pid, k->uid, "" };
		memcpy(sources[n_sources++].name, k->name, 16);
	}
	assert(n_sources > 0);
	f = stream_file(argv[1], "merged_", 0);
	struct ctf_merge m = { uuid, 1000, 0, body_len, NULL, out, f, buffer };

	assert(ctf_merge(&m, sources, n_sources) == 0);
	fclose(f);

	memcpy(t.uuid, uuid, sizeof(uuid));
	ctf_clock_offset(FREQ, UINT64_C(10000000000), UINT64_C(1795965000123456789),
		&t.clock_offset_s, &t.clock_offset);
	f = stream_file(argv[1], "metadata", 0);
	ctf_metadata_head(f, &t);
	for (uint32_t i = 0; i < N_EVENTS; i++)
		for (uint32_t c = CTF_CLASS_PROCESS; c <= CTF_CLASS_MERGED; c++)
			ctf_metadata_event(f, events[i].id, c, &events[i].e);
	assert(fclose(f) == 0);
	return 0;
}
