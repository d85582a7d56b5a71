/* SPDX-License-Identifier: MIT */
/* Layouts and ids: one id per distinct layout; unknown ones are nobody's; they come to an end. */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "daemon/programs/registry.h"
#include "varve/abi.h"

/* A layout as wire_event_parse() makes them: one allocation. */
static struct wire_event *layout(const char *name, uint8_t level, uint8_t type)
{
	struct {
		struct wire_event e;
		struct wire_field f;
	} *b = calloc(1, sizeof(*b));

	assert_non_null(b);
	b->e = (struct wire_event){
		.level = level,
		.n_fields = 1,
		.provider = "p",
		.name = name,
		.fields = &b->f,
	};
	b->f = (struct wire_field){ .type = type, .name = "x" };
	return &b->e;
}

static void layouts_of_one_name_are_two_events(void **state)
{
	struct registry *r = registry_new(5);
	struct wire_event *a = layout("e", 3, VARVE_T_U8), *b = layout("e", 3, VARVE_T_U16);
	struct wire_event *same = layout("e", 3, VARVE_T_U8), *level = layout("e", 4, VARVE_T_U8);
	const struct registry_event *ea, *eb;

	assert_null(registry_find(r, a));
	assert_int_equal(registry_add(r, a, &ea), 0);
	assert_int_equal(ea->id, 5);
	assert_null(registry_find(r, b));
	assert_int_equal(registry_add(r, b, &eb), 0);
	assert_int_equal(eb->id, 6);
	assert_ptr_equal(registry_find(r, same), ea);
	assert_null(registry_find(r, level));
	assert_int_equal(registry_first(r), 5);
	assert_int_equal(registry_end(r), 7);
	free(same);
	free(level);
	registry_free(r);
}

static void ids_of_others_are_unknown(void **state)
{
	struct registry *r = registry_new(5);
	const struct registry_event *e;

	assert_int_equal(registry_add(r, layout("e", 3, VARVE_T_U8), &e), 0);
	assert_ptr_equal(registry_get(r, 5), e);
	assert_null(registry_get(r, 4));
	assert_null(registry_get(r, 6));
	assert_null(registry_get(r, 0));
	assert_null(registry_get(r, UINT32_MAX));
	registry_free(r);
}

static void ids_come_to_an_end(void **state)
{
	struct registry *r = registry_new(CONTROL_N_WORDS - 1);
	struct wire_event *late = layout("late", 3, VARVE_T_U8);
	const struct registry_event *e;

	assert_int_equal(registry_add(r, layout("last", 3, VARVE_T_U8), &e), 0);
	assert_int_equal(e->id, CONTROL_N_WORDS - 1);
	assert_int_equal(registry_add(r, late, &e), -ENOSPC);
	free(late);
	registry_free(r);
	r = registry_new(CONTROL_N_WORDS);
	assert_non_null(r);
	assert_null(registry_get(r, CONTROL_N_WORDS));
	registry_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(layouts_of_one_name_are_two_events),
		cmocka_unit_test(ids_of_others_are_unknown),
		cmocka_unit_test(ids_come_to_an_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
