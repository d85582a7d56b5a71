/* SPDX-License-Identifier: MIT */
/* The program's half of the wire against the daemon's: what one writes the other reads. */

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <varve/varve.h>
#include "wire/client.h"
#include "wire/event.h"

VARVE_ENUM(states, ("idle", 0), ("not found", -9, -1));
VARVE_EVENT(wire, all, VARVE_WARNING, (u8, a), (double, b), (str, c), (array, x16, d, 9),
	(seq, i64, e), (text, f, 12), (textseq, g), (enumeration, i8, h, states), (bool, i));
VARVE_EVENT(wire, none, VARVE_DEBUG);

/* Descriptions alone are wanted here, no libvarve. */
void varve_object_register(struct varve_object *o)
{
}

void varve_object_unregister(struct varve_object *o)
{
}

void varve_event_emit(const struct varve_event *e, void *payload, size_t len)
{
}

static struct varve_event *const events[] = { &varve_wire_all__event, &varve_wire_none__event };

static void test_round_trip(void **state)
{
	static const struct {
		const char *name;
		uint8_t type, element;
		uint32_t length, n_labels;
	} expected[] = { { "a", VARVE_T_U8, 0, 0, 0 }, { "b", VARVE_T_F64, 0, 0, 0 },
		{ "c", VARVE_T_STR, 0, 0, 0 }, { "d", VARVE_T_ARRAY, VARVE_T_X16, 9, 0 },
		{ "e", VARVE_T_SEQ, VARVE_T_I64, 0, 0 }, { "f", VARVE_T_TEXT, 0, 12, 0 },
		{ "g", VARVE_T_TEXTSEQ, 0, 0, 0 }, { "h", VARVE_T_ENUM, VARVE_T_I8, 0, 2 },
		{ "i", VARVE_T_BOOL, 0, 0, 0 } };
	uint8_t buf[WIRE_MESSAGE_MAX];
	struct wire_event *e;
	size_t pos = 0;
	ssize_t n = 0;

	for (size_t i = 0; i < 2; i++)
		n += wire_event_write(events[i], buf + n, sizeof(buf) - (size_t)n);
	assert_int_equal(wire_event_parse(buf, (size_t)n, &pos, &e), 0);
	assert_string_equal(e->provider, "wire");
	assert_string_equal(e->name, "all");
	assert_int_equal(e->level, VARVE_WARNING);
	assert_int_equal(e->n_fields, 9);
	for (uint32_t i = 0; i < e->n_fields; i++) {
		assert_string_equal(e->fields[i].name, expected[i].name);
		assert_int_equal(e->fields[i].type, expected[i].type);
		assert_int_equal(e->fields[i].element, expected[i].element);
		assert_int_equal(e->fields[i].length, expected[i].length);
		assert_int_equal(e->fields[i].n_labels, expected[i].n_labels);
	}
	assert_string_equal(e->fields[7].labels[1].name, "not found");
	assert_int_equal((int64_t)e->fields[7].labels[1].low, -9);
	assert_int_equal((int64_t)e->fields[7].labels[1].high, -1);
	free(e);
	assert_int_equal(wire_event_parse(buf, (size_t)n, &pos, &e), 0);
	assert_string_equal(e->name, "none");
	assert_int_equal(e->n_fields, 0);
	assert_int_equal(pos, n);
	free(e);
}

/* Measuring and writing agree; nothing is written beyond the room. */
static void test_room(void **state)
{
	ssize_t whole = wire_event_write(events[0], NULL, 0);
	uint8_t buf[1024];

	assert_in_range(whole, 50, 200);
	for (size_t room = 0; room < (size_t)whole + 5; room++) {
		memset(buf, 0xee, sizeof(buf));
		assert_int_equal(wire_event_write(events[0], buf, room),
			room < (size_t)whole ? -ENOSPC : whole);
		for (size_t i = room; i < sizeof(buf); i++)
			assert_int_equal(buf[i], 0xee);
	}
}

/* What the wire has no room for is not described at all. */
static void test_bad_events(void **state)
{
	char long_name[200];
	struct varve_event e = *events[1];
	struct varve_field field = { "f", VARVE_T_ENUM, VARVE_T_U8, 0, 0, NULL };

	memset(long_name, 'a', sizeof(long_name));
	long_name[128] = 0;
	e.name = long_name;
	assert_int_equal(wire_event_write(&e, NULL, 0), 0);
	long_name[127] = 0;
	assert_true(wire_event_write(&e, NULL, 0) > 0);
	e.name = "";
	assert_int_equal(wire_event_write(&e, NULL, 0), 0);
	e.name = "b c";
	assert_int_equal(wire_event_write(&e, NULL, 0), 0);
	e.name = NULL;
	assert_int_equal(wire_event_write(&e, NULL, 0), 0);
	e = *events[1];
	e.size = 8;
	assert_int_equal(wire_event_write(&e, NULL, 0), 0);
	e = *events[1];
	e.n_fields = 1;
	e.fields = &field;
	assert_int_equal(wire_event_write(&e, NULL, 0), 0);
}

static void test_hello(void **state)
{
	struct wire_hello h = { .pid = 5, .n_events = 7, .name = "name" }, got;
	uint8_t buf[WIRE_MESSAGE_MAX];
	char exe[1000];
	const char *got_exe;
	size_t n;

	memset(exe, 'x', sizeof(exe));
	exe[999] = 0;
	n = wire_hello_write(buf, &h, exe);
	assert_int_equal(wire_hello_parse(buf, n, &got, &got_exe), 0);
	assert_int_equal(got.pid, 5);
	assert_int_equal(got.n_events, 7);
	assert_int_equal(got.exe_len, WIRE_EXE_MAX);
	assert_string_equal(got.name, "name");
	assert_memory_equal(got_exe, exe, WIRE_EXE_MAX);
}

/* Replies: every length, and every byte of the head changed. */
static void test_replies(void **state)
{
	struct wire_welcome w = { { WIRE_MAGIC, WIRE_VERSION, WIRE_WELCOME }, .cookie = 9 }, got;
	struct wire_ids ids = { { WIRE_MAGIC, WIRE_VERSION, WIRE_IDS }, 3, 0 }, got_ids;
	uint32_t id[3] = { 10, 20, 30 };
	uint8_t buf[64];

	for (size_t n = 0; n < sizeof(w); n++)
		assert_int_equal(wire_welcome_read((uint8_t *)&w, n, &got), -EBADMSG);
	assert_int_equal(wire_welcome_read((uint8_t *)&w, sizeof(w), &got), 0);
	assert_int_equal(got.cookie, 9);
	for (size_t i = 0; i < sizeof(w.head); i++) {
		((uint8_t *)&w)[i] ^= 1;
		assert_true(wire_welcome_read((uint8_t *)&w, sizeof(w), &got) < 0);
		((uint8_t *)&w)[i] ^= 1;
	}
	w.head.version++;
	assert_int_equal(wire_welcome_read((uint8_t *)&w, sizeof(w), &got), -EPROTONOSUPPORT);

	memcpy(buf, &ids, sizeof(ids));
	memcpy(buf + sizeof(ids), id, sizeof(id));
	for (size_t n = 0; n < sizeof(buf); n++)
		assert_int_equal(wire_ids_read(buf, n, &got_ids),
			n == sizeof(ids) + sizeof(id) ? 0 : -EBADMSG);
	assert_int_equal(wire_ids_get(buf, 2), 30);
	/* A count whose bytes overflow. */
	ids.n = 0x40000003;
	memcpy(buf, &ids, sizeof(ids));
	assert_int_equal(wire_ids_read(buf, sizeof(ids) + sizeof(id), &got_ids), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_room),
		cmocka_unit_test(test_bad_events),
		cmocka_unit_test(test_hello),
		cmocka_unit_test(test_replies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
