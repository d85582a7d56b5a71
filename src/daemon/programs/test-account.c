/* SPDX-License-Identifier: MIT */
/* Charges: limits hold, and what is returned is free again. */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "daemon/programs/account.h"

static void limits_hold_per_uid(void **state)
{
	struct accounts a;

	accounts_init(&a);
	a.limit[CHARGE_PROCESSES] = 3;
	assert_int_equal(account_charge(&a, 1, CHARGE_PROCESSES, 2), 0);
	assert_int_equal(account_charge(&a, 1, CHARGE_PROCESSES, 2), -EDQUOT);
	assert_int_equal(account_used(&a, 1, CHARGE_PROCESSES), 2);
	assert_int_equal(account_charge(&a, 2, CHARGE_PROCESSES, 3), 0);
	assert_int_equal(account_charge(&a, 1, CHARGE_PROCESSES, 1), 0);
	assert_int_equal(account_charge(&a, 1, CHARGE_PROCESSES, UINT64_MAX), -EDQUOT);
	accounts_fini(&a);
}

static void account_goes_with_its_last_charge(void **state)
{
	struct accounts a;

	accounts_init(&a);
	assert_int_equal(account_charge(&a, 7, CHARGE_BYTES, 10), 0);
	assert_int_equal(account_charge(&a, 7, CHARGE_EVENTS, 1), 0);
	account_return(&a, 7, CHARGE_BYTES, 10);
	assert_false(list_empty(&a.list));
	account_return(&a, 7, CHARGE_EVENTS, 1);
	assert_true(list_empty(&a.list));
	accounts_fini(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(limits_hold_per_uid),
		cmocka_unit_test(account_goes_with_its_last_charge),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
