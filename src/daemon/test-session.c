/* SPDX-License-Identifier: MIT */
/* Sessions: names, rules and enable words, stops, ends and what a budget must have at least. */

#include <errno.h>

#include "daemon/test-device.h"

static uint32_t word(struct device *v, uint32_t id)
{
	return atomic_load(&v->d.rundir.words[id]);
}

static void words_follow_the_rules(void **state)
{
	struct device *v = device_new();
	uint32_t rx = device_event(v, "net", "rx"), tx = device_event(v, "net", "tx");
	uint32_t late;
	const char *on[] = { "net:*", "!net:t*" }, *tx_only[] = { "net:tx" };
	struct session_options o = { .name = "b", .patterns = on, .n_patterns = 2 };
	struct session *a = device_session(v, "a", 0, 0), *b;
	char *error;

	assert_int_equal(word(v, rx), 1u << a->channel);
	assert_int_equal(session_create(&v->d, &o, &b, &error), 0);
	assert_int_not_equal(a->channel, b->channel);
	assert_int_equal(word(v, rx), 1u << a->channel | 1u << b->channel);
	assert_int_equal(word(v, tx), 1u << a->channel);
	/* An event that comes later is treated alike. */
	late = device_event(v, "net", "late");
	assert_int_equal(word(v, late), 1u << a->channel | 1u << b->channel);

	assert_int_equal(session_enable(b, tx_only, 1, &error), 0);
	assert_int_equal(word(v, tx), 1u << a->channel | 1u << b->channel);
	assert_int_equal(session_disable(b, on, 1, &error), 0);
	assert_int_equal(word(v, rx), 1u << a->channel);
	session_stop(a);
	assert_int_equal(word(v, rx), 0);
	assert_int_equal(session_start(a, &error), 0);
	assert_int_equal(word(v, rx), 1u << a->channel);
	device_free(v);
}

static void bad_patterns_change_nothing(void **state)
{
	struct device *v = device_new();
	uint32_t rx = device_event(v, "net", "rx");
	struct session *a = device_session(v, "a", 0, 0);
	const char *patterns[] = { "!net:rx", "nocolon" }, *off[] = { "!net:rx" };
	char *error = NULL;

	assert_int_equal(session_enable(a, patterns, 2, &error), -EINVAL);
	assert_non_null(strstr(error, "nocolon"));
	free(error);
	assert_int_equal(word(v, rx), 1u << a->channel);
	assert_int_equal(session_disable(a, off, 1, &error), -EINVAL);
	free(error);
	device_free(v);
}

static void refused(struct device *v, const char *name, uint64_t budget, int want, const char *says)
{
	struct session_options o = { .name = name, .budget = budget };
	struct session *s = NULL;
	char *error = NULL;

	assert_int_equal(session_create(&v->d, &o, &s, &error), want);
	assert_null(s);
	assert_non_null(strstr(error, says));
	assert_null(strchr(error, '\n'));
	free(error);
}

static void bad_sessions_are_refused_in_one_line(void **state)
{
	struct device *v = device_new();
	uint64_t min = session_budget_min(&v->d);
	struct program g = program_new(v, 1000, RING_LOCK);
	char number[32];

	/* Each process raises the minimum by what it is promised. */
	assert_int_equal(session_budget_min(&v->d), min + daemon_minimum(&v->d));
	min += daemon_minimum(&v->d);
	snprintf(number, sizeof(number), "%llu", (unsigned long long)min);
	refused(v, "a", min - 1, -EINVAL, number);
	refused(v, "a", SESSION_BUDGET_MAX + 1, -EINVAL, "maximum");
	refused(v, "a/b", 0, -EINVAL, "a/b");
	refused(v, "", 0, -EINVAL, "name");
	refused(v, ".a", 0, -EINVAL, ".a");
	device_session(v, "a", min, 0);
	refused(v, "a", 0, -EEXIST, "already");
	program_kill(&g);
	device_free(v);
}

static void channels_come_back_when_they_are_empty(void **state)
{
	struct device *v = device_new();
	struct session *s[POOL_N_CHANNELS];
	struct program g = program_new(v, 1000, RING_LOCK);
	char name[8];

	for (uint32_t i = 0; i < POOL_N_CHANNELS; i++) {
		snprintf(name, sizeof(name), "s%u", i);
		s[i] = device_session(v, name, 0, 0);
	}
	refused(v, "more", 0, -ENOSPC, "channels");
	program_emit(&g, s[3], 1000);
	session_destroy(s[3]);
	assert_null(session_find(&v->d, "s3"));
	/* Its data are still there, the current sub-buffer's too. */
	refused(v, "more", 0, -ENOSPC, "channels");
	for (int i = 0; i < 10 && v->d.channels[3]; i++)
		device_tick(v);
	assert_null(v->d.channels[3]);
	s[3] = device_session(v, "more", 0, 0);
	assert_int_equal(s[3]->channel, 3);
	/* What another session recorded there is not counted here. */
	assert_int_equal(process_committed(g.process, s[3]), 0);
	program_emit(&g, s[3], 5);
	assert_int_equal(process_committed(g.process, s[3]), 5);
	program_kill(&g);
	device_free(v);
}

static void stopped_session_keeps_its_data(void **state)
{
	struct device *v = device_new();
	struct session *s = device_session(v, "a", 0, 1000000); /* 1 ms */
	struct program g = program_new(v, 1000, RING_LOCK);
	uint32_t bit = 1u << s->channel;

	program_emit(&g, s, 1000);
	assert_true(atomic_load(&ring_header(&g.process->pool->ring)->channels) & bit);
	session_stop(s);
	assert_false(atomic_load(&ring_header(&g.process->pool->ring)->channels) & bit);
	usleep(5000);
	for (int i = 0; i < 5; i++)
		device_tick(v);
	assert_int_equal(process_tally(g.process, s)->aged, 0);
	assert_true(process_used(g.process, s) >= 1000 * 18);
	program_kill(&g);
	device_free(v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words_follow_the_rules),
		cmocka_unit_test(bad_patterns_change_nothing),
		cmocka_unit_test(bad_sessions_are_refused_in_one_line),
		cmocka_unit_test(channels_come_back_when_they_are_empty),
		cmocka_unit_test(stopped_session_keeps_its_data),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
