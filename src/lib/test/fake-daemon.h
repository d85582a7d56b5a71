/* SPDX-License-Identifier: MIT */
#ifndef VARVE_LIB_FAKE_DAEMON_H
#define VARVE_LIB_FAKE_DAEMON_H

/*
 * A daemon of a few hundred lines in a thread of a test: run directory, control file, wire, pools
 * that never change their size. It can be told to misbehave. Calls fail the test on any error.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include "ring/ring.h"
#include "wire/wire.h"

/* The fake daemon does not go on after an error of its own. */
#define fake_must(x)                                                                               \
	do {                                                                                       \
		if (!(x)) {                                                                        \
			fprintf(stderr, "%s:%d: %s: %m\n", __FILE__, __LINE__, #x);                \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

#define FAKE_LAYOUTS_MAX 16384
#define FAKE_POOLS_MAX	 4096
#define FAKE_SUBS	 64 /* small sub-buffers of a pool; 16 of 64 KiB are promised, too */

enum fake_manner {
	FAKE_SERVE,
	FAKE_DEAF,     /* listens, does not accept */
	FAKE_MUTE,     /* accepts, does not answer */
	FAKE_GARBAGE,  /* answers rubbish */
	FAKE_HALF,     /* says WELCOME and then nothing */
	FAKE_UNSEALED, /* the pool's size could change */
	FAKE_REFUSE,   /* WIRE_LIMIT */
	FAKE_SLOW,     /* answers after 5 ms */
};

struct fake_pool {
	struct ring_pool ring;
	struct wire_hello hello;
	char exe[WIRE_EXE_MAX + 1];
	uint32_t n_events; /* descriptions that came for it, in all conversations */
};

struct fake {
	char dir[64];
	struct control_page *control;
	_Atomic uint32_t *words;
	int listen_fd, stop_fd;
	pthread_t thread;
	pthread_mutex_t lock;
	_Atomic int manner;
	_Atomic uint32_t n_conversations;
	_Atomic uint32_t channels; /* of new pools */
	_Atomic uint32_t word;	   /* of new events */
	/* One per index that was ever handed out, from 1 on; NULL: of an earlier epoch. */
	struct wire_event *layouts[FAKE_LAYOUTS_MAX];
	_Atomic uint32_t n_layouts;
	struct fake_pool *pools[FAKE_POOLS_MAX];
	_Atomic uint32_t n_pools;
};

/* Makes the run directory and, unless absent, starts to listen. */
struct fake *fake_new(bool absent);
void fake_listen(struct fake *f);
/* A daemon that starts from nothing: new epoch, all ids void. */
void fake_renew(struct fake *f);
void fake_free(struct fake *f);

/* Sets the words of all known events of this "provider:name". */
void fake_enable(struct fake *f, const char *name, uint32_t word);

/* The newest pool of a process; NULL if it has none. */
struct fake_pool *fake_pool_of(struct fake *f, pid_t pid);

/*
 * What a pool holds on a channel, a line per record by time: "tid provider:name field=value ...".
 * New string. Every packet is verified.
 */
char *fake_records(struct fake *f, struct fake_pool *p, uint32_t ch);
/* The number of records, the same way. */
uint64_t fake_count(struct fake *f, struct fake_pool *p, uint32_t ch);
uint64_t fake_lost(struct fake_pool *p, uint32_t ch, enum lost_reason why);

#endif
