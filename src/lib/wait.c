/* SPDX-License-Identifier: MIT */
/* A thread that waits for a run directory: see wait.h. */

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include "lib/control.h"
#include "lib/objects.h"
#include "lib/process.h"
#include "lib/sys.h"
#include "lib/wait.h"

#define LOOK_EVERY_NS INT64_C(200000000)
#define LOOK_TIMES    (3600 * 5)

/* A look is an openat() or two. (inotify cannot wait for a directory that is not there either.) */
static void *wait_thread(void *unused)
{
	(void)unused;
	for (int i = 0; i < LOOK_TIMES; i++) {
		struct process *p = process_get();

		process_lock(p);
		if (control_map() == 0) {
			objects_await();
			i = LOOK_TIMES;
		}
		process_unlock(p);
		sys_sleep(LOOK_EVERY_NS);
	}
	return NULL;
}

void wait_for_daemon(void)
{
	static bool started;
	const char *s = secure_getenv("VARVE_WAIT");
	pthread_attr_t attr;
	sigset_t all, old;
	pthread_t thread;

	if (started || control_page() || !s || strcmp(s, "1") != 0)
		return;
	started = true;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, 64 * 1024);
	pthread_create(&thread, &attr, wait_thread, NULL);
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}
