/* SPDX-License-Identifier: MIT */
/*
 * The event call. The pool is loaded before the event's id: a pool is published after the ids that
 * belong to it.
 */

#include <errno.h>
#include <string.h>
#include <varve/abi.h>
#include "lib/attach.h"
#include "lib/process.h"
#include "lib/sys.h"

_Static_assert(VARVE_HEADROOM >= sizeof(uint32_t), "room for the contexts");
_Static_assert(VARVE_TAILROOM >= RECORD_SLACK, "the ring reads so far");
_Static_assert(VARVE_RECORD_MAX + sizeof(uint32_t) <= RECORD_BODY_MAX, "every record fits");

/* The thread's id, good for the pool of this cookie: a child has another pool. */
static __thread struct {
	uint64_t cookie;
	uint32_t tid;
} thread;

static uint32_t thread_tid(const struct attached *a)
{
	if (__builtin_expect(thread.cookie != a->cookie, 0)) {
		thread.tid = sys_tid();
		thread.cookie = a->cookie;
	}
	return thread.tid;
}

static void record(struct attached *a, uint32_t channels, uint32_t id, void *payload, size_t len)
{
	uint32_t tid = thread_tid(a);
	unsigned char *body = (unsigned char *)payload - sizeof(tid);

	memcpy(body, &tid, sizeof(tid));
	do {
		ring_emit(&a->writer, (uint32_t)__builtin_ctz(channels), id, body,
			(uint32_t)(len + sizeof(tid)));
		channels &= channels - 1;
	} while (channels);
}

void varve_event_emit(const struct varve_event *e, void *payload, size_t len)
{
	struct process *p = process_get();
	int *error = &errno, saved = *error;
	struct attached *a;
	uint32_t word, id;

	if (!p || len > VARVE_RECORD_MAX)
		return;
	a = atomic_load_explicit(&p->current, memory_order_acquire);
	word = __atomic_load_n(__atomic_load_n(&e->word, __ATOMIC_ACQUIRE), __ATOMIC_RELAXED);
	if (__builtin_expect(!a || word & WORD_ATTACH, 0)) {
		a = attach_from_event(p);
		if (!a) {
			atomic_fetch_add_explicit(&p->unattached, 1, memory_order_relaxed);
			goto out;
		}
		word = __atomic_load_n(
			__atomic_load_n(&e->word, __ATOMIC_ACQUIRE), __ATOMIC_RELAXED);
	}
	word &= ~WORD_ATTACH & atomic_load_explicit(&a->header->channels, memory_order_relaxed);
	id = __atomic_load_n(&e->id, __ATOMIC_RELAXED);
	if (__builtin_expect(word && id, 1))
		record(a, word, id, payload, len);
out:
	*error = saved;
}
