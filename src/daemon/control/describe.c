/* SPDX-License-Identifier: MIT */
/* Status and lists as JSON: see describe.h; the keys are those of doc/control-protocol.md. */

#include "daemon/control/describe.h"

#include <string.h>
#include "daemon/programs/process.h"
#include "daemon/session.h"
#include "varve/abi.h"

json_t *describe_lost(const uint64_t lost[])
{
	static const char *const names[] = {
		[LOST_NOBUF] = "nobuf",
		[LOST_TOOBIG] = "toobig",
		[LOST_RETRY] = "retry",
		[LOST_NORSEQ] = "norseq",
		[LOST_CORRUPT] = "corrupt",
		[LOST_UNATTACHED] = "unattached",
	};
	json_t *j = json_object();

	_Static_assert(
		sizeof(names) / sizeof(names[0]) == N_LOST_REASONS, "a name for each reason");
	for (int i = 0; i < N_LOST_REASONS; i++)
		json_object_set_new(j, names[i], json_integer((json_int_t)lost[i]));
	return j;
}

json_t *describe_patterns(const struct session *s)
{
	json_t *list = json_array();

	for (size_t i = 0; i < s->rules.n; i++) {
		char text[PATTERN_TEXT_MAX + 2];

		json_array_append_new(list, json_string(pattern_format(&s->rules.rules[i], text)));
	}
	return list;
}

json_t *describe_session(const struct session *s)
{
	struct session_totals t = { 0 };

	session_totals(s, &t);
	/* clang-format off */
	return json_pack("{s:s, s:s, s:b, s:I, s:I, s:I, s:I, s:I, s:o, s:I, s:I, s:I, s:o}",
		"name", s->name,
		"mode", s->mode == SESSION_STREAM ? "stream" : "flight",
		"active", (int)s->active,
		"budget", (json_int_t)s->budget,
		"used", (json_int_t)t.used,
		"huge_used", (json_int_t)t.huge_used,
		"base", (json_int_t)t.base,
		"window_ns", (json_int_t)s->window_ns,
		"patterns", describe_patterns(s),
		"pools", (json_int_t)t.pools,
		"store_used", (json_int_t)t.store_used,
		"events", (json_int_t)t.events,
		"lost", describe_lost(t.lost));
	/* clang-format on */
}

json_t *describe_sessions(const struct daemon *d, const struct session *only)
{
	json_t *list = json_array();
	struct session *s;

	list_for_each(s, &d->sessions, struct session, link)
		if (!only || s == only)
			json_array_append_new(list, describe_session(s));
	return list;
}

/* Of the sessions that count (all, or one), in sum. */
static json_t *describe_process(
	const struct process *p, const struct clock_map *map, const struct session *only)
{
	uint64_t lost[N_LOST_REASONS] = { 0 }, one[N_LOST_REASONS], used = 0, events = 0;
	struct session *s;

	list_for_each(s, &p->daemon->sessions, struct session, link) {
		if ((only && s != only) || !process_tally(p, s))
			continue;
		used += process_used(p, s);
		events += process_committed(p, s);
		process_lost(p, s, one);
		for (int i = 0; i < N_LOST_REASONS; i++)
			lost[i] += one[i];
	}
	/* clang-format off */
	return json_pack("{s:i, s:i, s:I, s:s, s:s?, s:b, s:I, s:I, s:I, s:o}",
		"pid", (int)p->pid,
		"ppid", (int)p->ppid,
		"uid", (json_int_t)p->uid,
		"name", p->name,
		"exe", p->exe,
		"alive", (int)p->alive,
		"started_at", (json_int_t)clock_unix_ns(map, p->started_at),
		"used", (json_int_t)used,
		"events", (json_int_t)events,
		"lost", describe_lost(lost));
	/* clang-format on */
}

json_t *describe_processes(const struct daemon *d, const struct session *only)
{
	struct clock_state clock = d->clock;
	json_t *list = json_array();
	struct clock_map map;
	struct process *p;

	clock_map(&clock, &map);
	list_for_each(p, &d->processes, struct process, link)
		if (!only || process_tally(p, only))
			json_array_append_new(list, describe_process(p, &map, only));
	return list;
}

/* --- events ------------------------------------------------------------------------------------- */

static const char *level_name(unsigned level)
{
	static const char *const names[] = { "emerg", "alert", "crit", "err", "warning", "notice",
		"info", "debug_system", "debug_program", "debug_process", "debug_module",
		"debug_unit", "debug_function", "debug_line", "debug" };

	return level < sizeof(names) / sizeof(names[0]) ? names[level] : "unknown";
}

static const char *type_name(unsigned type)
{
	/* clang-format off */
	static const char *const names[] = {
		[VARVE_T_U8] = "u8", [VARVE_T_U16] = "u16", [VARVE_T_U32] = "u32", [VARVE_T_U64] = "u64",
		[VARVE_T_I8] = "i8", [VARVE_T_I16] = "i16", [VARVE_T_I32] = "i32", [VARVE_T_I64] = "i64",
		[VARVE_T_X8] = "x8", [VARVE_T_X16] = "x16", [VARVE_T_X32] = "x32", [VARVE_T_X64] = "x64",
		[VARVE_T_BOOL] = "bool", [VARVE_T_F32] = "f32", [VARVE_T_F64] = "f64",
		[VARVE_T_STR] = "str", [VARVE_T_ARRAY] = "array", [VARVE_T_SEQ] = "seq",
		[VARVE_T_TEXT] = "text", [VARVE_T_TEXTSEQ] = "textseq", [VARVE_T_ENUM] = "enum",
	};
	/* clang-format on */
	const char *name = type < sizeof(names) / sizeof(names[0]) ? names[type] : NULL;

	return name ? name : "unknown";
}

/* "u32", "array u8[16]", "seq i32", "text[16]", "enum u8" */
static json_t *describe_field(const struct wire_field *f)
{
	const char *type = type_name(f->type);
	json_t *text;

	if (f->type == VARVE_T_ARRAY)
		text = json_sprintf("%s %s[%u]", type, type_name(f->element), f->length);
	else if (f->type == VARVE_T_TEXT)
		text = json_sprintf("%s[%u]", type, f->length);
	else if (f->type == VARVE_T_SEQ || f->type == VARVE_T_ENUM)
		text = json_sprintf("%s %s", type, type_name(f->element));
	else
		text = json_string(type);
	return json_pack("{s:s, s:o}", "name", f->name, "type", text);
}

json_t *describe_events(const struct daemon *d)
{
	json_t *list = json_array();

	for (uint32_t id = registry_first(d->registry); id < registry_end(d->registry); id++) {
		const struct registry_event *e = registry_get(d->registry, id);
		json_t *fields;

		if (!e)
			continue;
		fields = json_array();
		for (uint32_t i = 0; i < e->layout->n_fields; i++)
			json_array_append_new(fields, describe_field(&e->layout->fields[i]));
		/* clang-format off */
		json_array_append_new(list, json_pack("{s:o, s:I, s:s, s:o}",
			"name", json_sprintf("%s:%s", e->layout->provider, e->layout->name),
			"id", (json_int_t)e->id,
			"level", level_name(e->layout->level),
			"fields", fields));
		/* clang-format on */
	}
	return list;
}
