/* SPDX-License-Identifier: MIT */
/* The page of this process, and its lock: see process.h. */

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "lib/process.h"
#include "lib/sys.h"

#define PATIENCE_MS	50
#define PATIENCE_MS_MAX 60000
#define LOCK_AGAIN_NS	100000
#define LOCK_TRIES	50000

struct process *process;
bool process_unwiped;

static int64_t patience = PATIENCE_MS * INT64_C(1000000);

_Static_assert(sizeof(struct process) <= POOL_PAGE, "one page");

int64_t process_patience(void)
{
	return patience;
}

static void read_environment(void)
{
	const char *s = secure_getenv("VARVE_ATTACH_MS");
	char *end;
	long ms;

	if (!s || !*s)
		return;
	ms = strtol(s, &end, 10);
	if (*end == 0 && ms >= 0)
		patience = (ms > PATIENCE_MS_MAX ? PATIENCE_MS_MAX : ms) * INT64_C(1000000);
}

void process_init(void)
{
	struct process *p;

	if (process)
		return;
	p = mmap(NULL, POOL_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return;
	if (madvise(p, POOL_PAGE, MADV_WIPEONFORK) < 0) {
		process_unwiped = true;
		p->pid = getpid();
	}
	read_environment();
	p->patience = patience;
	p->begun = 1;
	/* Constructors run under the lock of the loader; should two of them get here after all, one
	 * page is lost. */
	__atomic_store_n(&process, p, __ATOMIC_RELEASE);
}

/* Kernels before 4.14, and emulators: at the price of a system call per event. */
struct process *process_check_pid(struct process *p)
{
	int32_t pid = getpid();

	if (p && p->pid != pid) {
		memset(p, 0, sizeof(*p));
		p->pid = pid;
	}
	return p;
}

bool process_try_lock(struct process *p)
{
	uint32_t none = 0;
	uint64_t signals;

	if (atomic_load_explicit(&p->lock, memory_order_relaxed))
		return false;
	signals = sys_signals_block();
	if (!atomic_compare_exchange_strong_explicit(
		    &p->lock, &none, 1, memory_order_acquire, memory_order_relaxed)) {
		sys_signals_restore(signals);
		return false;
	}
	p->signals = signals;
	return true;
}

/* Counts its tries, not the time: the whole process may have been stopped meanwhile. */
void process_lock(struct process *p)
{
	for (int i = 0; i < LOCK_TRIES; i++) {
		if (process_try_lock(p))
			return;
		sys_sleep(LOCK_AGAIN_NS);
	}
	p->signals = sys_signals_block();
}

void process_unlock(struct process *p)
{
	uint64_t signals = p->signals;

	atomic_store_explicit(&p->lock, 0, memory_order_release);
	sys_signals_restore(signals);
}
