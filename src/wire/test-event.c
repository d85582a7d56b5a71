/* SPDX-License-Identifier: MIT */
/* Descriptions of events: good ones come back as they went, bad ones are refused. */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "varve/abi.h"
#include "wire/event.h"

struct bytes {
	uint8_t data[4096];
	size_t n;
};

static void put(struct bytes *b, const void *data, size_t n)
{
	memcpy(b->data + b->n, data, n);
	b->n += n;
}

static void put_u8(struct bytes *b, uint8_t v)
{
	put(b, &v, 1);
}

static void put_name(struct bytes *b, const char *name)
{
	put_u8(b, (uint8_t)strlen(name));
	put(b, name, strlen(name));
}

static void put_field(
	struct bytes *b, uint8_t type, uint8_t element, uint32_t length, const char *name)
{
	put_u8(b, type);
	put_u8(b, element);
	put(b, &length, sizeof(length));
	put_name(b, name);
}

static void put_event(struct bytes *b, uint8_t n_fields, const char *provider, const char *name)
{
	put_u8(b, VARVE_INFO);
	put_u8(b, n_fields);
	put_name(b, provider);
	put_name(b, name);
}

static void put_label(struct bytes *b, int64_t low, int64_t high, const char *name)
{
	put(b, &low, sizeof(low));
	put(b, &high, sizeof(high));
	put_name(b, name);
}

/* An event with each kind of thing in it. */
static void put_rich(struct bytes *b)
{
	uint16_t n = 2;

	put_event(b, 4, "net", "rx_9");
	put_field(b, VARVE_T_U32, 0, 0, "len");
	put_field(b, VARVE_T_ARRAY, VARVE_T_X8, 16, "head");
	put_field(b, VARVE_T_ENUM, VARVE_T_I8, 0, "what");
	put(b, &n, sizeof(n));
	put_label(b, -128, -1, "bad \"luck\"");
	put_label(b, 0, 127, "good");
	put_field(b, VARVE_T_STR, 0, 0, "ifname");
}

static int parse(const struct bytes *b, struct wire_event **e)
{
	size_t pos = 0;

	return wire_event_parse(b->data, b->n, &pos, e);
}

static void rich_event_comes_out_whole(void **state)
{
	struct bytes b = { 0 };
	struct wire_event *e, *again;
	size_t pos = 0, first;

	put_rich(&b);
	first = b.n;
	put_rich(&b);
	assert_int_equal(wire_event_parse(b.data, b.n, &pos, &e), 0);
	assert_int_equal(pos, first);
	assert_int_equal(wire_event_parse(b.data, b.n, &pos, &again), 0);
	assert_int_equal(pos, b.n);
	assert_string_equal(e->provider, "net");
	assert_string_equal(e->name, "rx_9");
	assert_int_equal(e->level, VARVE_INFO);
	assert_int_equal(e->n_fields, 4);
	assert_int_equal(e->fields[1].element, VARVE_T_X8);
	assert_int_equal(e->fields[1].length, 16);
	assert_int_equal(e->fields[2].n_labels, 2);
	assert_true((int64_t)e->fields[2].labels[0].low == -128);
	assert_string_equal(e->fields[2].labels[0].name, "bad \"luck\"");
	assert_string_equal(e->fields[3].name, "ifname");
	assert_true(wire_event_equal(e, again));
	assert_true(wire_event_hash(e) == wire_event_hash(again));
	again->fields[2].labels[1].high--;
	assert_false(wire_event_equal(e, again));
	free(e);
	free(again);
}

/* Cut anywhere, it is refused; and nothing behind the end is read (run under a sanitizer). */
static void cut_event_is_refused(void **state)
{
	struct bytes b = { 0 };
	struct wire_event *e;

	put_rich(&b);
	for (size_t n = 0; n < b.n; n++) {
		uint8_t *exact = malloc(n ? n : 1);
		size_t pos = 0;

		memcpy(exact, b.data, n);
		assert_int_equal(wire_event_parse(exact, n, &pos, &e), -EBADMSG);
		assert_int_equal(pos, 0);
		free(exact);
	}
}

/* Any byte may be anything: refused or taken, but never out of bounds. */
static void rubbish_is_survived(void **state)
{
	struct bytes good = { 0 };
	unsigned seed = 1;

	put_rich(&good);
	for (int i = 0; i < 20000; i++) {
		struct wire_event *e;
		uint8_t *exact = malloc(good.n);
		size_t pos = 0;

		memcpy(exact, good.data, good.n);
		for (int k = rand_r(&seed) % 4; k >= 0; k--)
			exact[(size_t)rand_r(&seed) % good.n] = (uint8_t)rand_r(&seed);
		if (wire_event_parse(exact, good.n, &pos, &e) == 0) {
			assert_true(pos <= good.n);
			wire_event_hash(e);
			free(e);
		}
		free(exact);
	}
}

static void refused(uint8_t type, uint8_t element, uint32_t length, const char *name)
{
	struct bytes b = { 0 };
	struct wire_event *e;

	put_event(&b, 1, "p", "e");
	put_field(&b, type, element, length, name);
	assert_int_equal(parse(&b, &e), -EBADMSG);
}

static void impossible_fields_are_refused(void **state)
{
	refused(0, 0, 0, "f");
	refused(VARVE_T_F64 + 1, 0, 0, "f");
	refused(VARVE_T_ENUM + 1, 0, 0, "f");
	refused(VARVE_T_U8, VARVE_T_U8, 0, "f");
	refused(VARVE_T_U8, 0, 1, "f");
	refused(VARVE_T_ARRAY, VARVE_T_STR, 1, "f");
	refused(VARVE_T_ARRAY, VARVE_T_U8, 0, "f");
	refused(VARVE_T_ARRAY, VARVE_T_U64, RECORD_BODY_MAX / 8 + 1, "f");
	refused(VARVE_T_ARRAY, VARVE_T_U64, UINT32_MAX, "f");
	refused(VARVE_T_SEQ, VARVE_T_U8, 1, "f");
	refused(VARVE_T_TEXT, 0, 0, "f");
	refused(VARVE_T_ENUM, VARVE_T_F32, 0, "f");
	refused(VARVE_T_ENUM, VARVE_T_U8, 0, "f"); /* no labels */
	refused(VARVE_T_U8, 0, 0, "");
	refused(VARVE_T_U8, 0, 0, "a-b");
	refused(VARVE_T_U8, 0, 0, "a b");
}

static void impossible_names_and_labels_are_refused(void **state)
{
	struct bytes b = { 0 };
	struct wire_event *e;
	uint16_t one = 1;

	put_event(&b, 2, "p", "e");
	put_field(&b, VARVE_T_U8, 0, 0, "same");
	put_field(&b, VARVE_T_U16, 0, 0, "same");
	assert_int_equal(parse(&b, &e), -EBADMSG);

	b.n = 0;
	put_event(&b, 1, "p", "e");
	put_field(&b, VARVE_T_ENUM, VARVE_T_U8, 0, "f");
	put(&b, &one, sizeof(one));
	put_label(&b, 0, 256, "beyond the type");
	assert_int_equal(parse(&b, &e), -EBADMSG);

	b.n = 0;
	put_event(&b, 1, "p", "e");
	put_field(&b, VARVE_T_ENUM, VARVE_T_U8, 0, "f");
	put(&b, &one, sizeof(one));
	put_label(&b, 2, 1, "upside down");
	assert_int_equal(parse(&b, &e), -EBADMSG);

	b.n = 0;
	put_event(&b, 0, "p\"", "e");
	assert_int_equal(parse(&b, &e), -EBADMSG);
}

static void hello_must_be_whole(void **state)
{
	struct {
		struct wire_hello h;
		char exe[3];
	} __attribute__((packed)) m = { .exe = "abc" };
	struct wire_hello h;
	enum wire_type type;
	const char *exe;

	m.h.head = (struct wire_head){ WIRE_MAGIC, WIRE_VERSION, WIRE_HELLO };
	m.h.exe_len = 3;
	memset(m.h.name, 'x', sizeof(m.h.name));
	assert_int_equal(wire_head_check(&m, sizeof(m), &type), 0);
	assert_int_equal(type, WIRE_HELLO);
	assert_int_equal(wire_hello_parse(&m, sizeof(m), &h, &exe), 0);
	assert_memory_equal(exe, "abc", 3);
	assert_int_equal(strlen(h.name), 15);
	assert_int_equal(wire_hello_parse(&m, sizeof(m) - 1, &h, &exe), -EBADMSG);
	assert_int_equal(wire_head_check(&m, sizeof(m.h) - 1, &type), -EBADMSG);
	m.h.head.version++;
	assert_int_equal(wire_head_check(&m, sizeof(m), &type), -EPROTONOSUPPORT);
	m.h.head.magic++;
	assert_int_equal(wire_head_check(&m, sizeof(m), &type), -EBADMSG);
	m.h.n_events = WIRE_EVENTS_MAX + 1;
	assert_int_equal(wire_hello_parse(&m, sizeof(m), &h, &exe), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rich_event_comes_out_whole),
		cmocka_unit_test(cut_event_is_refused),
		cmocka_unit_test(rubbish_is_survived),
		cmocka_unit_test(impossible_fields_are_refused),
		cmocka_unit_test(impossible_names_and_labels_are_refused),
		cmocka_unit_test(hello_must_be_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
