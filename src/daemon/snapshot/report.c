/* SPDX-License-Identifier: MIT */

/* The JSON of a snapshot: see report.h. */

#include "daemon/snapshot/report.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "daemon/control/describe.h"
#include "daemon/programs/process.h"
#include "daemon/session.h"
#include "daemon/snapshot/data.h"

/* A program that spoils its own pool may make a count anything; a reader of JSON gets no sign. */
static void set(json_t *o, const char *key, uint64_t v)
{
	json_object_set_new(o, key, json_integer(v < INT64_MAX ? (json_int_t)v : INT64_MAX));
}

static json_t *left_out(const uint64_t *v)
{
	json_t *o = json_object();

	set(o, "bad_header", v[LEFT_BAD_HEADER]);
	set(o, "bad_record", v[LEFT_BAD_RECORD]);
	set(o, "bad_time", v[LEFT_BAD_TIME]);
	set(o, "raced", v[LEFT_RACED]);
	return o;
}

/* 0 means never. */
static json_t *moment(const struct snapshot *sn, uint64_t ticks)
{
	return ticks ? json_integer((json_int_t)clock_unix_ns(&sn->map, ticks)) : json_null();
}

/* As a shell would give it: 128 and the signal of one that was killed. */
static json_t *end_status(const struct snapshot_process *p)
{
	if (!p->end_known)
		return json_null();
	return json_integer(WIFSIGNALED(p->end_status) ? 128 + WTERMSIG(p->end_status)
						       : WEXITSTATUS(p->end_status));
}

static json_t *identity(const struct snapshot *sn, const struct snapshot_process *p)
{
	const struct process *who = p->process;

	return json_pack("{s:I, s:I, s:I, s:s, s:s?, s:b, s:o, s:o, s:o}", "pid",
		(json_int_t)who->pid, "ppid", (json_int_t)who->ppid, "uid", (json_int_t)who->uid,
		"name", who->name, "exe", who->exe, "alive", p->alive, "started_at",
		moment(sn, p->started_at), "ended_at", moment(sn, p->ended_at), "end_status",
		end_status(p));
}

static json_t *process_report(const struct snapshot *sn, const struct snapshot_process *p)
{
	json_t *o = identity(sn, p);

	json_object_set_new(o, "complete_since",
		moment(sn, p->complete_since < sn->now ? p->complete_since : sn->now));
	json_object_set_new(o, "first_event_at", moment(sn, p->first_ts));
	json_object_set_new(o, "last_event_at", moment(sn, p->last_ts));
	set(o, "events", p->events);
	set(o, "bytes", p->bytes);
	set(o, "overwritten", p->overwritten);
	set(o, "aged", p->aged);
	set(o, "consumed", p->consumed);
	json_object_set_new(o, "lost", describe_lost(p->lost));
	json_object_set_new(o, "left_out", left_out(p->left_out));
	return o;
}

/* How far back everything is there: the window, or less. */
static uint64_t held_ns(const struct snapshot *sn)
{
	uint64_t since = sn->session_started_at, ns;

	for (uint32_t i = 0; i < sn->n_processes; i++) {
		const struct snapshot_process *p = &sn->processes[i];
		bool whole = p->complete_since <= p->since || p->complete_since <= sn->keep_since;

		if (!whole && p->complete_since > since)
			since = p->complete_since;
	}
	if (since >= sn->until)
		return 0;
	ns = clock_unix_ns(&sn->map, sn->until) - clock_unix_ns(&sn->map, since);
	return ns < sn->window_ns ? ns : sn->window_ns;
}

/* Puts an object's members into the one that has been begun, and drops it. */
static void put_members(FILE *f, json_t *o)
{
	char *text = o ? json_dumps(o, JSON_INDENT(2)) : NULL;
	size_t len = text ? strlen(text) : 0;

	if (len > 4)
		fwrite(text + 1, 1, len - 3, f); /* without { and "\n}" */
	free(text);
	json_decref(o);
}

static void put_list(FILE *f, const struct snapshot *sn,
	json_t *(*make)(const struct snapshot *, const struct snapshot_process *), size_t flags)
{
	for (uint32_t i = 0; i < sn->n_processes; i++) {
		json_t *o = make(sn, &sn->processes[i]);

		fputs(i ? ",\n    " : "\n    ", f);
		if (json_dumpf(o, f, flags) < 0)
			fputs("null", f);
		json_decref(o);
	}
}

void report_write(FILE *f, const struct snapshot *sn)
{
	json_t *window =
		sn->window_ns == UINT64_MAX ? json_null() : json_integer((json_int_t)sn->window_ns);
	json_t *clock = json_pack("{s:s, s:I, s:I, s:I}", "name", sn->trace.clock_name, "freq_hz",
		(json_int_t)sn->map.freq_hz, "offset_s", (json_int_t)sn->trace.clock_offset_s,
		"offset", (json_int_t)sn->trace.clock_offset);

	fputs("{", f);
	put_members(f, json_pack("{s:s, s:s, s:I, s:s, s:I, s:I, s:o, s:I, s:o}", "version",
			       sn->trace.tracer_version, "hostname", sn->trace.hostname, "taken_at",
			       (json_int_t)sn->map.unix_ns, "session", sn->session->name, "budget",
			       (json_int_t)sn->budget, "used", (json_int_t)sn->used, "window_ns",
			       window, "held_ns", (json_int_t)held_ns(sn), "clock", clock));
	fputs(",\n  \"processes\": [", f);
	put_list(f, sn, process_report, 0);
	fputs("\n  ]\n}\n", f);
}

void report_write_processes(FILE *f, const struct snapshot *sn)
{
	fputs("[", f);
	put_list(f, sn, identity, 0);
	fputs("\n]\n", f);
}

char *report_summary(const struct snapshot *sn, uint64_t n_bytes)
{
	uint64_t events = 0;
	json_t *o;
	char *text;

	for (uint32_t i = 0; i < sn->n_processes; i++)
		events += sn->processes[i].events;
	o = json_pack("{s:I, s:s, s:I, s:I, s:I}", "taken_at", (json_int_t)sn->map.unix_ns,
		"session", sn->session->name, "processes", (json_int_t)sn->n_processes, "events",
		(json_int_t)events, "bytes", (json_int_t)n_bytes);
	text = json_dumps(o, JSON_COMPACT);
	json_decref(o);
	return text;
}
