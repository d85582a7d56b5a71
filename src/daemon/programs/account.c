/* SPDX-License-Identifier: MIT */
/* Charges per uid: see account.h. A device has few uids, so a list will do. */

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/programs/account.h"

void accounts_init(struct accounts *a)
{
	list_init(&a->list);
	a->limit[CHARGE_CONNECTIONS] = 256;
	a->limit[CHARGE_PROCESSES] = 4096;
	a->limit[CHARGE_EVENTS] = 1u << 17; /* of 2^20 ids */
	a->limit[CHARGE_BYTES] = 64u << 20;
}

void accounts_fini(struct accounts *a)
{
	struct account *acc;

	list_for_each(acc, &a->list, struct account, link)
		free(acc);
	list_init(&a->list);
}

static struct account *account_find(const struct accounts *a, uid_t uid)
{
	struct account *acc;

	list_for_each(acc, &a->list, struct account, link)
		if (acc->uid == uid)
			return acc;
	return NULL;
}

int account_charge(struct accounts *a, uid_t uid, enum charge what, uint64_t n)
{
	struct account *acc = account_find(a, uid);
	uint64_t used = acc ? acc->used[what] : 0;

	if (n > a->limit[what] || used > a->limit[what] - n)
		return -EDQUOT;
	if (!acc) {
		acc = calloc(1, sizeof(*acc));
		if (!acc)
			return -ENOMEM;
		acc->uid = uid;
		list_append(&a->list, &acc->link);
	}
	acc->used[what] += n;
	return 0;
}

void account_return(struct accounts *a, uid_t uid, enum charge what, uint64_t n)
{
	struct account *acc = account_find(a, uid);
	static const uint64_t nothing[N_CHARGES];

	if (n == 0)
		return;
	assert(acc && acc->used[what] >= n);
	acc->used[what] -= n;
	if (memcmp(acc->used, nothing, sizeof(nothing)) == 0) {
		list_remove(&acc->link);
		free(acc);
	}
}

uint64_t account_used(const struct accounts *a, uid_t uid, enum charge what)
{
	const struct account *acc = account_find(a, uid);

	return acc ? acc->used[what] : 0;
}
