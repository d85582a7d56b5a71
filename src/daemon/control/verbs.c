/* SPDX-License-Identifier: MIT */
/*
 * The verbs: see verbs.h. A request is refused as a whole for a key that its verb does not know or
 * a value of the wrong type, before anything is done.
 */

#include "daemon/control/verbs.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "daemon/control/describe.h"
#include "daemon/session.h"
#include "daemon/snapshot/snapshot.h"

#define KEYS_MAX 8

struct verb {
	const char *name;
	const char *keys[KEYS_MAX]; /* besides "verb" */
	void (*run)(struct daemon *d, struct ctl_conn *c, const json_t *request);
};

/* --- values of a request: false means that the failure has been answered --------------------------- */

static bool take_text(
	struct ctl_conn *c, const json_t *request, const char *key, const char **ret_text)
{
	const json_t *v = json_object_get(request, key);

	if (v && !json_is_string(v)) {
		ctl_fail(c, 2, "\"%s\" must be a text", key);
		return false;
	}
	*ret_text = json_string_value(v);
	return true;
}

static bool take_number(
	struct ctl_conn *c, const json_t *request, const char *key, uint64_t *ret_value)
{
	const json_t *v = json_object_get(request, key);

	if (v && (!json_is_integer(v) || json_integer_value(v) <= 0)) {
		ctl_fail(c, 2, "\"%s\" must be a whole number above 0", key);
		return false;
	}
	*ret_value = v ? (uint64_t)json_integer_value(v) : 0;
	return true;
}

/* *ret_texts is an array to free(), its texts borrowed of the request; NULL if the key is not there. */
static bool take_texts(struct ctl_conn *c, const json_t *request, const char *key,
	const char ***ret_texts, uint32_t *ret_n)
{
	const json_t *v = json_object_get(request, key);
	const char **texts;
	size_t n = json_array_size(v);

	*ret_texts = NULL;
	*ret_n = 0;
	if (!v)
		return true;
	texts = calloc(n + 1, sizeof(*texts));
	if (!texts) {
		ctl_fail(c, 1, "out of memory");
		return false;
	}
	for (size_t i = 0; i < n; i++)
		texts[i] = json_string_value(json_array_get(v, i));
	for (size_t i = 0; i <= n; i++) {
		if (json_is_array(v) && (i == n || texts[i]))
			continue;
		ctl_fail(c, 2, "\"%s\" must be a list of texts", key);
		free(texts);
		return false;
	}
	*ret_texts = texts;
	*ret_n = (uint32_t)n;
	return true;
}

static void fail_unknown_session(struct daemon *d, struct ctl_conn *c, const char *name)
{
	char names[512] = "";
	size_t n = 0;
	struct session *s;

	list_for_each(s, &d->sessions, struct session, link) {
		if (n + strlen(s->name) + 8 > sizeof(names))
			break;
		n += (size_t)sprintf(names + n, "%s%s", n ? ", " : "", s->name);
	}
	if (n == 0)
		ctl_fail(c, 1, "no session '%s': there is none ('varve start %s' makes it)", name,
			name);
	else
		ctl_fail(c, 1, "no session '%s' (there are: %s)", name, names);
}

/* The session that the request names. Without a name the only one, or NULL in *ret if optional. */
static bool take_session(struct daemon *d, struct ctl_conn *c, const json_t *request, bool optional,
	struct session **ret)
{
	const char *name;

	*ret = NULL;
	if (!take_text(c, request, "session", &name))
		return false;
	if (name) {
		*ret = session_find(d, name);
		if (!*ret)
			fail_unknown_session(d, c, name);
		return *ret;
	}
	if (optional)
		return true;
	if (list_empty(&d->sessions))
		ctl_fail(c, 1, "there is no session ('varve start NAME' makes one)");
	else if (d->sessions.next != d->sessions.prev)
		ctl_fail(c, 2, "there are several sessions: which? ('varve list sessions')");
	else
		*ret = list_entry(d->sessions.next, struct session, link);
	return *ret;
}

static void fail_with(struct ctl_conn *c, int r, char *error_take)
{
	ctl_fail(c, r == -EINVAL ? 2 : 1, "%s", error_take ? error_take : strerror(-r));
	free(error_take);
}

/* --- the verbs ---------------------------------------------------------------------------------- */

static void verb_start(struct daemon *d, struct ctl_conn *c, const json_t *request)
{
	struct session_options o = { .mode = SESSION_FLIGHT };
	const char *mode, *hugepages, **patterns;
	struct session *s;
	char *error = NULL;
	int r;

	if (!take_text(c, request, "session", &o.name) || !take_text(c, request, "mode", &mode) ||
		!take_text(c, request, "hugepages", &hugepages) ||
		!take_number(c, request, "budget", &o.budget) ||
		!take_number(c, request, "window_ns", &o.window_ns))
		return;
	if (!o.name) {
		ctl_fail(c, 2, "\"session\" is missing");
		return;
	}
	if (mode && strcmp(mode, "flight") != 0) {
		ctl_fail(c, 2, "there is no mode '%s' in this version, only 'flight'", mode);
		return;
	}
	if (hugepages && strcmp(hugepages, "off") != 0) {
		ctl_fail(c, 2, "there are no huge pages in this version, only 'off'");
		return;
	}
	if (!take_texts(c, request, "patterns", &patterns, &o.n_patterns))
		return;
	o.patterns = patterns;
	r = session_create(d, &o, &s, &error);
	free(patterns);
	if (r < 0)
		fail_with(c, r, error);
	else
		ctl_answer(c, json_pack("{s:o}", "session", describe_session(s)));
}

static void verb_stop(struct daemon *d, struct ctl_conn *c, const json_t *request)
{
	struct session *s;

	if (!take_session(d, c, request, false, &s))
		return;
	session_stop(s);
	ctl_answer(c, NULL);
}

static void verb_destroy(struct daemon *d, struct ctl_conn *c, const json_t *request)
{
	struct session *s;

	if (!take_session(d, c, request, false, &s))
		return;
	session_destroy(s);
	ctl_answer(c, NULL);
}

typedef int rules_fn(struct session *s, const char *const *patterns, uint32_t n, char **ret_error);

static void add_rules(struct daemon *d, struct ctl_conn *c, const json_t *request, rules_fn *add)
{
	const char **patterns;
	struct session *s;
	char *error = NULL;
	uint32_t n;
	int r;

	if (!take_session(d, c, request, false, &s) ||
		!take_texts(c, request, "patterns", &patterns, &n))
		return;
	if (n == 0) {
		ctl_fail(c, 2, "\"patterns\" is missing or empty");
	} else {
		r = add(s, patterns, n, &error);
		if (r < 0)
			fail_with(c, r, error);
		else
			ctl_answer(c, json_pack("{s:o}", "patterns", describe_patterns(s)));
	}
	free(patterns);
}

static void verb_enable(struct daemon *d, struct ctl_conn *c, const json_t *request)
{
	add_rules(d, c, request, session_enable);
}

static void verb_disable(struct daemon *d, struct ctl_conn *c, const json_t *request)
{
	add_rules(d, c, request, session_disable);
}

static void verb_status(struct daemon *d, struct ctl_conn *c, const json_t *request)
{
	struct session *s;

	if (take_session(d, c, request, true, &s))
		ctl_answer(c, json_pack("{s:s, s:i, s:o, s:o}", "version", VARVE_VERSION, "pid",
				      (int)getpid(), "sessions", describe_sessions(d, s),
				      "processes", describe_processes(d, s)));
}

static void verb_list(struct daemon *d, struct ctl_conn *c, const json_t *request)
{
	json_t *list = NULL;
	const char *what;

	if (!take_text(c, request, "what", &what))
		return;
	if (what && strcmp(what, "events") == 0)
		list = describe_events(d);
	else if (what && strcmp(what, "processes") == 0)
		list = describe_processes(d, NULL);
	else if (what && strcmp(what, "sessions") == 0)
		list = describe_sessions(d, NULL);
	if (list)
		ctl_answer(c, json_pack("{s:o}", "list", list));
	else
		ctl_fail(c, 2, "\"what\" must be \"events\", \"processes\" or \"sessions\"");
}

static void verb_snapshot(struct daemon *d, struct ctl_conn *c, const json_t *request)
{
	const json_t *allow_empty = json_object_get(request, "allow_empty");
	struct snapshot_options o = { .allow_empty = json_is_true(allow_empty) };
	struct snapshot *sn;
	struct session *s;
	char *error = NULL;
	int r, fd;

	if (!take_session(d, c, request, false, &s) ||
		!take_number(c, request, "last_ns", &o.last_ns))
		return;
	if (allow_empty && !json_is_boolean(allow_empty)) {
		ctl_fail(c, 2, "\"allow_empty\" must be true or false");
		return;
	}
	r = snapshot_new(d, s, &o, &sn, &error);
	if (r < 0) {
		fail_with(c, r, error);
		return;
	}
	fd = ctl_hand_over(c, json_pack("{s:s, s:I}", "session", s->name, "taken_at",
				      (json_int_t)snapshot_taken_at(sn)));
	if (fd < 0)
		snapshot_free(sn);
	else
		snapshot_send(sn, fd);
}

static const struct verb verbs[] = {
	{ "start", { "session", "budget", "window_ns", "mode", "patterns", "hugepages" },
		verb_start },
	{ "stop", { "session" }, verb_stop },
	{ "destroy", { "session" }, verb_destroy },
	{ "enable", { "session", "patterns" }, verb_enable },
	{ "disable", { "session", "patterns" }, verb_disable },
	{ "status", { "session" }, verb_status },
	{ "list", { "what" }, verb_list },
	{ "snapshot", { "session", "last_ns", "allow_empty" }, verb_snapshot },
};

static bool knows_key(const struct verb *v, const char *key)
{
	if (strcmp(key, "verb") == 0)
		return true;
	for (int i = 0; i < KEYS_MAX && v->keys[i]; i++)
		if (strcmp(v->keys[i], key) == 0)
			return true;
	return false;
}

void verbs_request(void *daemon, struct ctl_conn *c, json_t *request)
{
	const struct verb *v = NULL;
	const char *name, *key;
	json_t *value;

	if (!take_text(c, request, "verb", &name))
		return;
	for (size_t i = 0; name && i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (strcmp(verbs[i].name, name) == 0)
			v = &verbs[i];
	if (!v) {
		ctl_fail(c, 2, "there is no verb '%s'", name ? name : "");
		return;
	}
	json_object_foreach(request, key, value) {
		if (!knows_key(v, key)) {
			ctl_fail(c, 2, "'%s' knows no \"%s\"", v->name, key);
			return;
		}
	}
	v->run(daemon, c, request);
}
