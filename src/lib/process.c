/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "lib/process.h"
#include "lib/sys.h"

#define PATIENCE_MS	50
#define PATIENCE_MS_MAX 60000

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

	return atomic_compare_exchange_strong_explicit(
		&p->lock, &none, 1, memory_order_acquire, memory_order_relaxed);
}

void process_lock(struct process *p)
{
	int64_t patient_until = sys_now() + 1000000000;

	while (!process_try_lock(p)) {
		if (sys_now() >= patient_until)
			return;
		sys_sleep(100000);
	}
}

void process_unlock(struct process *p)
{
	atomic_store_explicit(&p->lock, 0, memory_order_release);
}
