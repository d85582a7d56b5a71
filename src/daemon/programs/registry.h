/* SPDX-License-Identifier: MIT */
#ifndef VARVE_DAEMON_REGISTRY_H
#define VARVE_DAEMON_REGISTRY_H

/*
 * Every distinct event layout of the device: provider, name, level, fields. The id of a layout is
 * the index of its enable word and the id in its records. Ids are dealt out by the control file and
 * never used twice; those of earlier epochs are not in the registry.
 *
 * Entries are immutable and live as long as the daemon. The loop thread adds; registry_get() and
 * the entries may be used from any thread.
 */

#include <stdint.h>
#include "wire/wire.h"

struct registry;

struct registry_event {
	uint32_t id;
	const struct wire_event *layout;
};

/* Ids run from first to CONTROL_N_WORDS - 1. NULL without memory. */
struct registry *registry_new(uint32_t first);
void registry_free(struct registry *r);

/* The entry, or NULL if there is none of that id. */
const struct registry_event *registry_get(const struct registry *r, uint32_t id);

/* For loops: ids are in [registry_first, registry_end). */
uint32_t registry_first(const struct registry *r);
uint32_t registry_end(const struct registry *r);

/* The entry of an equal layout, or NULL. */
const struct registry_event *registry_find(
	const struct registry *r, const struct wire_event *layout);

/* Adds a layout that is not yet there; takes it over on success. 0, -ENOMEM or -ENOSPC (ids). */
int registry_add(
	struct registry *r, struct wire_event *layout_take, const struct registry_event **ret);

#endif
