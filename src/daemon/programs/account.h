/* SPDX-License-Identifier: MIT */
#ifndef VARVE_DAEMON_ACCOUNT_H
#define VARVE_DAEMON_ACCOUNT_H

/*
 * What each uid makes the daemon hold, and how much of it it may. One account per uid that has
 * something; it goes with its last charge. Event layouts are never given back: their ids are not.
 */

#include <stdint.h>
#include <sys/types.h>
#include "base/list.h"

enum charge {
	CHARGE_CONNECTIONS,
	CHARGE_PROCESSES, /* with a pool, or dead with data in a store */
	CHARGE_EVENTS,	  /* layouts */
	CHARGE_BYTES,	  /* of layouts and of messages not yet complete */
	N_CHARGES
};

struct account {
	struct list link;
	uid_t uid;
	uint64_t used[N_CHARGES];
};

struct accounts {
	struct list list;
	uint64_t limit[N_CHARGES]; /* of every uid */
};

void accounts_init(struct accounts *a); /* with the default limits */
void accounts_fini(struct accounts *a);
/* 0; -EDQUOT at the limit; -ENOMEM. */
int account_charge(struct accounts *a, uid_t uid, enum charge what, uint64_t n);
void account_return(struct accounts *a, uid_t uid, enum charge what, uint64_t n);
uint64_t account_used(const struct accounts *a, uid_t uid, enum charge what);

#endif
