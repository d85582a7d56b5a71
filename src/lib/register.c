/* SPDX-License-Identifier: MIT */
/* What the constructors and destructors of objects with events call. */

#include <errno.h>
#include <varve/abi.h>
#include "lib/attach.h"
#include "lib/objects.h"
#include "lib/process.h"
#include "lib/wait.h"

static bool usable(const struct varve_object *o)
{
	return o && o->size >= sizeof(*o) && o->abi == VARVE_ABI_VERSION && o->begin < o->end;
}

void varve_object_register(struct varve_object *o)
{
	int saved = errno;
	struct process *p;

	if (!usable(o))
		return;
	process_init();
	p = process_get();
	if (p) {
		process_lock(p);
		if (objects_add(o))
			attach_registered(p);
		process_unlock(p);
		wait_for_daemon();
	}
	errno = saved;
}

/* The events keep their words and ids: other destructors, and other threads, may still emit. */
void varve_object_unregister(struct varve_object *o)
{
	int saved = errno;
	struct process *p = process_get();

	if (p && usable(o)) {
		process_lock(p);
		objects_remove(o);
		process_unlock(p);
	}
	errno = saved;
}
