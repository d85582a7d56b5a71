/* SPDX-License-Identifier: MIT */
/* Tables of what the daemon answered: see show.h. */

#include "cli/show.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/units.h"
#include "cli/table.h"

static uint64_t number(const json_t *o, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(o, key));
}

static const char *text(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "";
}

static void cell_size(struct table *t, const json_t *o, const char *key)
{
	char buf[UNITS_FORMAT_MAX];

	table_cell(t, "%s", units_size_format(buf, number(o, key)));
}

static void cell_count(struct table *t, uint64_t n)
{
	char buf[UNITS_COUNT_MAX];

	table_cell(t, "%s", units_count_format(buf, n));
}

/* "0", or "12 (nobuf 10, retry 2)". */
static void cell_lost(struct table *t, const json_t *lost)
{
	char buf[UNITS_COUNT_MAX], reasons[512] = "";
	const char *reason;
	const json_t *value;
	uint64_t sum = 0;
	size_t n = 0;

	json_object_foreach((json_t *)lost, reason, value) {
		uint64_t count = (uint64_t)json_integer_value(value);

		sum += count;
		if (count && n < sizeof(reasons))
			n += (size_t)snprintf(reasons + n, sizeof(reasons) - n, "%s%s %" PRIu64,
				n ? ", " : "", reason, count);
	}
	if (n)
		table_cell(t, "%s (%s)", units_count_format(buf, sum), reasons);
	else
		table_cell(t, "0");
}

static void cell_texts(struct table *t, const json_t *list)
{
	char buf[512] = "";
	size_t n = 0, i;
	const json_t *value;

	json_array_foreach(list, i, value) {
		const char *s = json_string_value(value);

		if (n < sizeof(buf))
			n += (size_t)snprintf(
				buf + n, sizeof(buf) - n, "%s%s", n ? " " : "", s ? s : "");
	}
	table_cell(t, "%s", buf);
}

void show_sessions(const json_t *list)
{
	static const char *const columns[] = { "<SESSION", "<STATE", ">BUDGET", ">USED", ">STORE",
		">BASE", ">WINDOW", ">POOLS", ">EVENTS", "<LOST", "<PATTERNS", NULL };
	struct table *t = table_new(columns);
	char buf[UNITS_FORMAT_MAX];
	const json_t *s;
	size_t i;

	json_array_foreach(list, i, s) {
		table_cell(t, "%s", text(s, "name"));
		table_cell(t, "%s",
			json_is_true(json_object_get(s, "active")) ? "recording" : "stopped");
		cell_size(t, s, "budget");
		cell_size(t, s, "used");
		cell_size(t, s, "store_used");
		cell_size(t, s, "base");
		table_cell(t, "%s", units_time_format(buf, number(s, "window_ns")));
		cell_count(t, number(s, "pools"));
		cell_count(t, number(s, "events"));
		cell_lost(t, json_object_get(s, "lost"));
		cell_texts(t, json_object_get(s, "patterns"));
	}
	table_print(t, stdout, "no session ('varve start NAME' makes one)");
}

void show_processes(const json_t *list)
{
	static const char *const columns[] = { ">PID", ">UID", "<NAME", "<STATE", ">USED",
		">EVENTS", "<LOST", NULL };
	struct table *t = table_new(columns);
	const json_t *p;
	size_t i;

	json_array_foreach(list, i, p) {
		table_cell(t, "%" PRIu64, number(p, "pid"));
		table_cell(t, "%" PRIu64, number(p, "uid"));
		table_cell(t, "%s", text(p, "name"));
		table_cell(t, "%s", json_is_true(json_object_get(p, "alive")) ? "alive" : "ended");
		cell_size(t, p, "used");
		cell_count(t, number(p, "events"));
		cell_lost(t, json_object_get(p, "lost"));
	}
	table_print(t, stdout, "no process ('varve run CMD' starts one)");
}

void show_events(const json_t *list)
{
	static const char *const columns[] = { ">ID", "<LEVEL", "<EVENT", "<FIELDS", NULL };
	struct table *t = table_new(columns);
	const json_t *e, *f;
	char buf[1024];
	size_t i, k, n;

	json_array_foreach(list, i, e) {
		table_cell(t, "%" PRIu64, number(e, "id"));
		table_cell(t, "%s", text(e, "level"));
		table_cell(t, "%s", text(e, "name"));
		buf[0] = '\0';
		n = 0;
		json_array_foreach(json_object_get(e, "fields"), k, f)
			if (n < sizeof(buf))
				n += (size_t)snprintf(buf + n, sizeof(buf) - n, "%s%s %s",
					n ? ", " : "", text(f, "type"), text(f, "name"));
		table_cell(t, "%s", buf);
	}
	table_print(t, stdout, "no event: no program with events has come yet");
}

void show_json(const json_t *value)
{
	json_dumpf(value, stdout, JSON_INDENT(2));
	putchar('\n');
}
