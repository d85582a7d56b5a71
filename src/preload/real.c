/* SPDX-License-Identifier: MIT */
/*
 * The next functions in the order of symbols: looked up all at once, at the first call of any
 * wrapper. dlsym() may allocate meanwhile: memory.c has an arena for that.
 *
 * Threads that come at the same time all look up; they find the same.
 */

#include "preload/real.h"

#include <dlfcn.h>
#include <errno.h>

struct real real_functions;
_Atomic bool real_ready;
_Thread_local bool real_resolving;

void real_resolve(void)
{
	int saved = errno;

	if (real_resolving)
		return;
	real_resolving = true;
#define RESOLVE(name, result, parameters) *(void **)&real_functions.name = dlsym(RTLD_NEXT, #name);
	REAL_FUNCTIONS(RESOLVE)
#undef RESOLVE
	real_resolving = false;
	atomic_store_explicit(&real_ready, true, memory_order_release);
	errno = saved;
}
