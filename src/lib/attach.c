/* SPDX-License-Identifier: MIT */
/* Attaching to a daemon: see attach.h. What is said there is in talk.c. */

#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include "lib/attach.h"
#include "lib/control.h"
#include "lib/objects.h"
#include "lib/sys.h"
#include "lib/talk.h"

#define EVENT_PATIENCE_NS INT64_C(1000000)
#define RETRY_NS	  INT64_C(100000000)
/* Doubled so often at most: the interval after refusals; both after answers that came too late. */
#define REFUSED_SHIFT_MAX 6u
#define LATE_SHIFT_MAX	  3u

static uint64_t control_epoch(void)
{
	return atomic_load_explicit(&control_page()->epoch, memory_order_acquire);
}

static bool clock_usable(uint32_t clock)
{
#if defined(__x86_64__)
	return clock == TRACE_CLOCK_MONOTONIC || clock == TRACE_CLOCK_TSC;
#elif defined(__aarch64__)
	return clock == TRACE_CLOCK_MONOTONIC || clock == TRACE_CLOCK_CNTVCT;
#else
	return clock == TRACE_CLOCK_MONOTONIC;
#endif
}

/* Half of what RLIMIT_AS leaves. */
static uint64_t address_room(void)
{
	uint64_t used = 0, pages = 0;
	struct rlimit limit;
	char text[32];
	ssize_t n;
	int fd;

	if (getrlimit(RLIMIT_AS, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
		return UINT64_MAX;
	fd = sys_openat(AT_FDCWD, "/proc/self/statm", O_RDONLY);
	n = sys_read(fd, text, sizeof(text));
	sys_close(fd);
	for (ssize_t i = 0; i < n && text[i] >= '0' && text[i] <= '9'; i++)
		pages = pages * 10 + (uint64_t)(text[i] - '0');
	used = pages * (uint64_t)sysconf(_SC_PAGESIZE);
	return limit.rlim_cur > used ? (limit.rlim_cur - used) / 2 : 0;
}

/* The name of the process, not of this thread. */
static void read_name(char name[16])
{
	int fd = sys_openat(AT_FDCWD, "/proc/self/comm", O_RDONLY);
	ssize_t n = sys_read(fd, name, 16);

	sys_close(fd);
	if (n > 0)
		name[n - 1] = 0;
	else
		prctl(PR_GET_NAME, name);
}

/* --- the pool --------------------------------------------------------------------------------- */

/* Its size is the daemon's word for good, or the daemon could send us SIGBUS. */
static int check_pool_fd(int fd, uint64_t span)
{
	const int seals = F_SEAL_GROW | F_SEAL_SHRINK;
	struct stat st;
	int r = fcntl(fd, F_GET_SEALS);

	if (r < 0 || (r & seals) != seals || fstat(fd, &st) < 0)
		return -EPROTO;
	return span >= POOL_PAGE && span <= UINT64_C(1) << 32 && (uint64_t)st.st_size == span
		       ? 0
		       : -EPROTO;
}

/* The slot of the next pool. One that is used again is of a daemon seven daemons ago. */
static struct attached *pool_slot(struct process *p)
{
	struct attached *a = &p->pools[p->n_pools % PROCESS_POOLS];

	if (a->writer.base)
		munmap(a->writer.base, a->span);
	memset(a, 0, sizeof(*a));
	return a;
}

static int map_pool(
	struct process *p, struct talk *t, const struct wire_hello *hello, struct attached **ret)
{
	const struct wire_welcome *w = &t->welcome;
	struct attached *a;
	void *base;
	int r = check_pool_fd(t->pool_fd, w->span);

	if (r < 0)
		return r;
	base = mmap(
		NULL, w->span, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, t->pool_fd, 0);
	if (base == MAP_FAILED)
		return -ENOMEM;
	/* Or a core dump would fill all of it. */
	madvise(base, w->span, MADV_DONTDUMP);
	a = pool_slot(p);
	r = ring_writer_init(&a->writer, base, w->span, control_page(), (enum ring_mode)hello->mode,
		(enum trace_clock)hello->clock);
	if (r < 0) {
		munmap(base, w->span);
		memset(a, 0, sizeof(*a));
		return r;
	}
	a->header = base;
	a->cookie = w->cookie;
	a->epoch = w->epoch;
	a->span = w->span;
	p->n_pools++;
	*ret = a;
	return 0;
}

/* Nobody reads the earlier pools any more. They stay mapped, a thread may be inside one, but their
 * memory is given back. */
static void empty_others(struct process *p, const struct attached *current)
{
	for (uint32_t i = 0; i < PROCESS_POOLS; i++) {
		struct attached *a = &p->pools[i];

		if (a == current || !a->writer.base || a->emptied)
			continue;
		madvise(a->writer.base, a->span, MADV_REMOVE);
		a->emptied = true;
	}
}

/* What was lost before there was a pool is told to the new one, if anybody there records. */
static void tell_losses(struct process *p, struct attached *a)
{
	uint32_t channels = atomic_load_explicit(&a->header->channels, memory_order_relaxed);
	uint64_t n;

	if (!channels)
		return;
	n = atomic_exchange_explicit(&p->unattached, 0, memory_order_relaxed);
	for (; n && channels; channels &= channels - 1)
		ring_lost_add(&a->writer, (uint32_t)__builtin_ctz(channels), LOST_UNATTACHED,
			n > UINT32_MAX ? UINT32_MAX : (uint32_t)n);
}

/* --- the exchange ----------------------------------------------------------------------------- */

static int status_errno(uint32_t status)
{
	switch (status) {
	case WIRE_OK:
		return 0;
	case WIRE_STALE:
	case WIRE_BAD_COOKIE:
		return -ESTALE;
	default:
		return -EACCES;
	}
}

/*
 * One conversation. current is the pool to add events to; NULL asks for a new one, which then comes
 * as *ret. 0; -ESTALE: all is void, start from nothing; -EACCES: the daemon would not; -errno.
 */
static int converse(
	struct process *p, struct attached *current, int64_t deadline, struct attached **ret)
{
	uint64_t epoch = control_epoch();
	uint32_t clock = atomic_load_explicit(&control_page()->clock, memory_order_relaxed);
	struct wire_hello hello = {
		.cookie = current ? current->cookie : 0,
		.epoch = epoch,
		.room = current ? 0 : address_room(),
		.pid = getpid(),
		.ppid = getppid(),
		.mode = ring_mode_choose((enum trace_clock)clock),
		.clock = clock,
		.n_events = objects_count(epoch),
	};
	struct talk t;
	int r;

	if (!clock_usable(clock))
		return -EPROTO;
	read_name(hello.name);
	r = talk_init(&t, deadline);
	if (r == 0)
		r = talk_ask(&t, &hello, epoch);
	if (r == 0)
		r = talk_welcome(&t);
	if (r == 0)
		r = status_errno(t.welcome.status);
	if (r == 0 && (t.welcome.clock != clock || t.welcome.n_ids > hello.n_events))
		r = -EPROTO;
	if (r == 0 && !current)
		atomic_store_explicit(&p->current, NULL, memory_order_relaxed);
	if (r == 0)
		r = talk_assign(&t, epoch);
	if (r == 0 && !current)
		r = map_pool(p, &t, &hello, ret);
	if (r == 0)
		objects_sent(t.welcome.epoch);
	talk_fini(&t);
	return r;
}

/*
 * Brings this process and the daemon in force together. 0, also if there was nothing to do;
 * -ENOTCONN if nobody listens; another -errno.
 */
static int attach(struct process *p, int64_t deadline)
{
	struct attached *old = atomic_load_explicit(&p->current, memory_order_relaxed), *new = NULL;
	bool same;
	int r;

	if (!control_listens())
		return -ENOTCONN;
	same = old && old->epoch == control_epoch();
	if (same && !objects_unsent())
		return 0;
	if (same) {
		r = converse(p, old, deadline, NULL);
		if (r != -ESTALE)
			return r;
		objects_forget();
	}
	r = converse(p, NULL, deadline, &new);
	if (r == -ESTALE) {
		objects_forget();
		r = converse(p, NULL, deadline, &new);
	}
	if (r < 0 || !new)
		return r;
	tell_losses(p, new);
	atomic_store_explicit(&p->current, new, memory_order_release);
	empty_others(p, new);
	return 0;
}

/* --- when ------------------------------------------------------------------------------------- */

static uint32_t shift_of(uint32_t failed, uint32_t max)
{
	return failed == 0 ? 0 : failed - 1 < max ? failed - 1 : max;
}

/* Sets when to try again, after an attempt that ended with r. */
static void schedule(struct process *p, int r)
{
	bool late = r == -ETIMEDOUT, refused = r == -EACCES || r == -EPERM;
	uint32_t n = atomic_load_explicit(&p->failed, memory_order_relaxed);

	n = late || refused ? n + 1 : 0;
	atomic_store_explicit(&p->failed, n, memory_order_relaxed);
	n = shift_of(n, refused ? REFUSED_SHIFT_MAX : LATE_SHIFT_MAX);
	atomic_store_explicit(&p->retry_at, r == 0 ? 0 : sys_now_coarse() + (RETRY_NS << n),
		memory_order_relaxed);
}

/* How long an event call may wait now. */
static int64_t event_patience(struct process *p)
{
	if (!atomic_exchange_explicit(&p->begun, 1, memory_order_relaxed))
		return process_patience();
	return EVENT_PATIENCE_NS << shift_of(
		       atomic_load_explicit(&p->failed, memory_order_relaxed), LATE_SHIFT_MAX);
}

void attach_registered(struct process *p)
{
	int64_t patience = atomic_load_explicit(&p->patience, memory_order_relaxed), begun, spent;
	int r;

	if (control_map() < 0)
		return;
	objects_await();
	if (sys_now_coarse() < atomic_load_explicit(&p->retry_at, memory_order_relaxed))
		return;
	begun = sys_now();
	r = attach(p, begun + (patience > EVENT_PATIENCE_NS ? patience : EVENT_PATIENCE_NS));
	if (r == -ENOTCONN)
		return;
	schedule(p, r);
	spent = r == 0 ? 0 : sys_now() - begun;
	atomic_store_explicit(
		&p->patience, patience > spent ? patience - spent : 0, memory_order_relaxed);
}

/* Whether a system call may be made in an event call at all. A kernel without filters says EINVAL. */
static bool calls_allowed(void)
{
	int r = prctl(PR_GET_SECCOMP);

	return r == 0 || (r < 0 && errno == EINVAL);
}

struct attached *attach_from_event(struct process *p)
{
	struct attached *a = atomic_load_explicit(&p->current, memory_order_acquire);
	int r;

	if (!control_page())
		return NULL;
	if (a && a->epoch == control_epoch() && !objects_unsent())
		return a;
	if (!control_listens() ||
		sys_now_coarse() < atomic_load_explicit(&p->retry_at, memory_order_relaxed))
		return NULL;
	if (!calls_allowed()) {
		schedule(p, -EACCES);
		return NULL;
	}
	if (!process_try_lock(p))
		return NULL;
	r = attach(p, sys_now() + event_patience(p));
	schedule(p, r);
	process_unlock(p);
	return r == 0 ? atomic_load_explicit(&p->current, memory_order_acquire) : NULL;
}
