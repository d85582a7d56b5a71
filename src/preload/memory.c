/* SPDX-License-Identifier: MIT */
/*
 * The malloc family: see real.h for the rules. reallocarray() calls realloc() and needs no wrapper.
 *
 * While the next functions are looked up there is nobody to ask for memory: what is wanted then
 * comes from a small arena and is never given back.
 */

#include "preload/real.h"

#include <errno.h>
#include <malloc.h>
#include <string.h>

VARVE_EVENT(libc, malloc, VARVE_DEBUG_FUNCTION, (u64, size), (x64, result), (u64, duration));
VARVE_EVENT(libc, calloc, VARVE_DEBUG_FUNCTION, (u64, count), (u64, size), (x64, result),
	(u64, duration));
VARVE_EVENT(libc, realloc, VARVE_DEBUG_FUNCTION, (x64, address), (u64, size), (x64, result),
	(u64, duration));
VARVE_EVENT(libc, free, VARVE_DEBUG_FUNCTION, (x64, address), (u64, duration));
VARVE_EVENT(libc, aligned_alloc, VARVE_DEBUG_FUNCTION, (u64, alignment), (u64, size), (x64, result),
	(u64, duration));
VARVE_EVENT(libc, posix_memalign, VARVE_DEBUG_FUNCTION, (u64, alignment), (u64, size),
	(x64, address), (i32, result), (u64, duration));
VARVE_EVENT(libc, memalign, VARVE_DEBUG_FUNCTION, (u64, alignment), (u64, size), (x64, result),
	(u64, duration));
VARVE_EVENT(libc, valloc, VARVE_DEBUG_FUNCTION, (u64, size), (x64, result), (u64, duration));
VARVE_EVENT(libc, pvalloc, VARVE_DEBUG_FUNCTION, (u64, size), (x64, result), (u64, duration));

#define ARENA_SIZE 16384
#define ARENA_HEAD 16 /* in front of each piece: its size */

static _Alignas(16) char arena[ARENA_SIZE];
static _Atomic size_t arena_used;

static bool in_arena(const void *p)
{
	return (uintptr_t)p - (uintptr_t)arena < ARENA_SIZE;
}

static void *arena_take(size_t size)
{
	size_t whole, at;

	if (size > ARENA_SIZE)
		return NULL;
	whole = ARENA_HEAD + ((size + 15) & ~(size_t)15);
	at = atomic_fetch_add_explicit(&arena_used, whole, memory_order_relaxed);
	if (at + whole > ARENA_SIZE)
		return NULL;
	memcpy(arena + at, &size, sizeof(size));
	return arena + at + ARENA_HEAD; /* all zero: nothing is used twice */
}

/* What was in the arena, moved to where it can be given back from. */
static void *arena_leave(const void *p, size_t size)
{
	size_t old;
	void *q = real_resolving ? arena_take(size) : REAL(malloc)(size);

	memcpy(&old, (const char *)p - ARENA_HEAD, sizeof(old));
	if (q)
		memcpy(q, p, old < size ? old : size);
	return q;
}

WRAPPER void *malloc(size_t size)
{
	uint64_t begun;
	void *p;

	if (__builtin_expect(real_resolving, 0))
		return arena_take(size);
	if (!RECORDED(malloc))
		return REAL(malloc)(size);
	begun = now_ns();
	p = REAL(malloc)(size);
	varve_libc_malloc(size, (uintptr_t)p, now_ns() - begun);
	return p;
}

WRAPPER void *calloc(size_t count, size_t size)
{
	uint64_t begun;
	size_t whole;
	void *p;

	if (__builtin_expect(real_resolving, 0))
		return __builtin_mul_overflow(count, size, &whole) ? NULL : arena_take(whole);
	if (!RECORDED(calloc))
		return REAL(calloc)(count, size);
	begun = now_ns();
	p = REAL(calloc)(count, size);
	varve_libc_calloc(count, size, (uintptr_t)p, now_ns() - begun);
	return p;
}

WRAPPER void *realloc(void *old, size_t size)
{
	uintptr_t address = (uintptr_t)old;
	uint64_t begun;
	void *p;

	if (__builtin_expect(in_arena(old), 0))
		return arena_leave(old, size);
	if (__builtin_expect(real_resolving, 0))
		return old ? NULL : arena_take(size);
	if (!RECORDED(realloc))
		return REAL(realloc)(old, size);
	begun = now_ns();
	p = REAL(realloc)(old, size);
	varve_libc_realloc(address, size, (uintptr_t)p, now_ns() - begun);
	return p;
}

WRAPPER void free(void *p)
{
	uintptr_t address = (uintptr_t)p;
	uint64_t begun;

	if (__builtin_expect(in_arena(p) || real_resolving, 0))
		return;
	if (!RECORDED(free)) {
		REAL(free)(p);
		return;
	}
	begun = now_ns();
	REAL(free)(p);
	varve_libc_free(address, now_ns() - begun);
}

WRAPPER void *aligned_alloc(size_t alignment, size_t size)
{
	uint64_t begun;
	void *p;

	if (!RECORDED(aligned_alloc))
		return REAL(aligned_alloc)(alignment, size);
	begun = now_ns();
	p = REAL(aligned_alloc)(alignment, size);
	varve_libc_aligned_alloc(alignment, size, (uintptr_t)p, now_ns() - begun);
	return p;
}

WRAPPER int posix_memalign(void **ret, size_t alignment, size_t size)
{
	uint64_t begun;
	int r;

	if (!RECORDED(posix_memalign))
		return REAL(posix_memalign)(ret, alignment, size);
	begun = now_ns();
	r = REAL(posix_memalign)(ret, alignment, size);
	varve_libc_posix_memalign(
		alignment, size, r == 0 ? (uintptr_t)*ret : 0, r, now_ns() - begun);
	return r;
}

WRAPPER void *memalign(size_t alignment, size_t size)
{
	uint64_t begun;
	void *p;

	if (!RECORDED(memalign))
		return REAL(memalign)(alignment, size);
	begun = now_ns();
	p = REAL(memalign)(alignment, size);
	varve_libc_memalign(alignment, size, (uintptr_t)p, now_ns() - begun);
	return p;
}

WRAPPER void *valloc(size_t size)
{
	uint64_t begun;
	void *p;

	if (!RECORDED(valloc))
		return REAL(valloc)(size);
	begun = now_ns();
	p = REAL(valloc)(size);
	varve_libc_valloc(size, (uintptr_t)p, now_ns() - begun);
	return p;
}

WRAPPER void *pvalloc(size_t size)
{
	uint64_t begun;
	void *p;

	if (!RECORDED(pvalloc))
		return REAL(pvalloc)(size);
	begun = now_ns();
	p = REAL(pvalloc)(size);
	varve_libc_pvalloc(size, (uintptr_t)p, now_ns() - begun);
	return p;
}
