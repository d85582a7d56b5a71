/* SPDX-License-Identifier: MIT */
#ifndef VARVE_VARVE_H
#define VARVE_VARVE_H

/*
 * Instrumenting a program: one macro describes an event, one call records it.
 *
 *	#include <varve/varve.h>
 *
 *	VARVE_EVENT(net, rx, VARVE_INFO, (u32, len), (str, ifname));
 *	...
 *	varve_net_rx(skb->len, dev->name);
 *
 * VARVE_EVENT(provider, name, level, fields...) stands at file (or namespace) scope, in a header or
 * in a .c or .cpp file, in as many of them as you like. It makes a function
 * varve_provider_name(arguments) that costs a load and a branch while nobody records the event.
 * Link with -lvarve; nothing else is to be called or set up. Call it from any thread and from any
 * signal handler: it does not block, does not fail and leaves errno alone.
 *
 * A field is (type, name); each gives the function an argument, or two:
 *
 *	field                       argument                        recorded as
 *	(u8, f) ... (u64, f)        uintN_t                         unsigned number
 *	(i8, f) ... (i64, f)        intN_t                          signed number
 *	(x8, f) ... (x64, f)        uintN_t                         unsigned number, shown as hex
 *	(bool, f)                   bool (C: see <stdbool.h>)       0 or 1
 *	(float, f) (double, f)      float, double                   IEEE 754
 *	(str, f)                    const char *                    string; NULL is "(null)"
 *	(array, T, f, N)            const T *                       N numbers; NULL is all zero
 *	(seq, T, f)                 const T *, size_t count         so many numbers; NULL is none
 *	(text, f, N)                const char *                    up to N bytes, or a NUL; NULL is "(null)"
 *	(textseq, f)                const char *, size_t length     text of so many bytes; likewise
 *	(enumeration, T, f, NAME)   T                               number with a label
 *
 * T is one of u8 ... x64, float, double (of an enumeration: no float). N is a constant, 1 to
 * VARVE_RECORD_MAX. The labels of an enumeration are given by
 *
 *	VARVE_ENUM(NAME, ("label", value), ("label", lowest, highest), ...);
 *
 * The level is one of enum varve_level (abi.h), VARVE_EMERG to VARVE_DEBUG. An event has at most 64
 * fields, an enumeration at most 64 labels. A payload has at most VARVE_RECORD_MAX bytes, which lie
 * on the caller's stack: strings, texts and counted arrays are cut to fit, the last ones first.
 * Provider, event and field names are plain words of at most 127 bytes, and should not be names of
 * macros (errno is one).
 *
 * varve_enabled(provider, name) tells whether anybody records the event: for arguments that are
 * dear to compute. In C++, of an event in a namespace: ns::varve_enabled(provider, name).
 * varve_printf(level, "format", ...) records a line of text as event varve:printf; it calls
 * vsnprintf(), no more.
 *
 * A program finds the daemon by VARVE_RUNDIR, else in /run/varve, else in $XDG_RUNTIME_DIR/varve.
 * It waits at most VARVE_ATTACH_MS (50) for a daemon that does not answer, and not at all where
 * there is none; a later one is met at the next event. VARVE_WAIT=1 makes it look for a run
 * directory that appears later (in a thread of its own).
 *
 * Two events of one name with different fields are two events. C11 and C++11, gcc and clang.
 *
 * How it works: the function tests the event's enable word, a word of the daemon's shared by all
 * processes. Where it is not zero, a second function, out of line, adds up the size of the payload,
 * lays it out on its own stack and hands it to varve_event_emit(). A pointer to each event that the
 * unit uses lies in the ELF section varve_events; a constructor gives that range to libvarve.
 */

#include <stdarg.h>
#include <varve/abi.h>
#include <varve/field.h>

/* --- for use ---------------------------------------------------------------------------------- */

/* clang-format off */
#define VARVE_EVENT(provider, name, ...)                                                           \
	VARVE__NAMES(provider, name)                                                               \
	VARVE__EACH(VARVE__CHECK, __VA_ARGS__)                                                     \
	VARVE__ASSERT(VARVE__FIXED_SIZE(__VA_ARGS__) <= VARVE_RECORD_MAX,                          \
		"varve: the fields of " #provider ":" #name " need more than VARVE_RECORD_MAX bytes"); \
	VARVE__ASSERT((unsigned)(VARVE__FIRST(__VA_ARGS__, ~)) <= (unsigned)VARVE_DEBUG,           \
		"varve: the third argument of " #provider ":" #name " is a level, as VARVE_INFO"); \
	static const struct varve_field varve_##provider##_##name##__fields[] = {                  \
		VARVE__EACH(VARVE__DESCRIBE, __VA_ARGS__)                                          \
		{ VARVE__NULL, 0, 0, 0, 0, VARVE__NULL }                                           \
	};                                                                                         \
	static struct varve_event varve_##provider##_##name##__event = {                           \
		(uint32_t)sizeof(struct varve_event),                                              \
		(uint8_t)(VARVE__FIRST(__VA_ARGS__, ~)),                                           \
		VARVE__COUNT(__VA_ARGS__) - 1, 0, #provider, #name,                                \
		varve_##provider##_##name##__fields, &varve__off, 0, 0                             \
	};                                                                                         \
	VARVE__SLOT(varve_##provider##_##name)                                                     \
	static VARVE__NOINLINE void varve_##provider##_##name##__emit(                             \
		VARVE__ARGUMENTS(VARVE__PARAMETER, void, __VA_ARGS__))                             \
	{                                                                                          \
		size_t varve__left = VARVE_RECORD_MAX - (VARVE__FIXED_SIZE(__VA_ARGS__));          \
		VARVE__EACH(VARVE__MEASURE, __VA_ARGS__)                                           \
		size_t varve__len = VARVE_RECORD_MAX - varve__left;                                \
		unsigned char *varve__payload = VARVE_HEADROOM + (unsigned char *)                 \
			__builtin_alloca(VARVE_HEADROOM + varve__len + VARVE_TAILROOM);            \
		unsigned char *varve__p = varve__payload;                                          \
		VARVE__EACH(VARVE__PUT, __VA_ARGS__)                                               \
		(void)varve__p;                                                                    \
		varve__emit(varve__event(&varve_##provider##_##name##__slot), varve__payload,      \
			varve__len);                                                               \
	}                                                                                          \
	static inline VARVE__INLINE void varve_##provider##_##name(                                \
		VARVE__ARGUMENTS(VARVE__PARAMETER, void, __VA_ARGS__))                             \
	{                                                                                          \
		if (__builtin_expect(varve__word(&varve_##provider##_##name##__event) != 0, 0))    \
			varve_##provider##_##name##__emit(                                         \
				VARVE__ARGUMENTS(VARVE__PASS, , __VA_ARGS__));                     \
	}                                                                                          \
	VARVE__ASSERT(1, "")

#define VARVE_ENUM(name, ...)                                                                      \
	VARVE__EACH(VARVE__CHECK_LABEL, ~, __VA_ARGS__)                                            \
	static const struct varve_label varve_enum_##name[] __attribute__((unused)) = {            \
		VARVE__EACH(VARVE__LABEL, ~, __VA_ARGS__)                                          \
	};                                                                                         \
	VARVE__ASSERT(1, "")

#define varve_enabled(provider, name) varve_##provider##_##name##__enabled()

#define varve_printf(level, ...)                                                                   \
	do {                                                                                       \
		if (__builtin_expect(varve_enabled(varve, printf), 0))                             \
			varve__printf((level), __FILE__, __LINE__, __VA_ARGS__);                   \
	} while (0)

/* --- one event -------------------------------------------------------------------------------- */

#define VARVE__NAMES(provider, name)                                                               \
	VARVE__ASSERT(sizeof(#provider) <= 128 && sizeof(#name) <= 128,                            \
		"varve: " #provider ":" #name " is too long a name");

#define VARVE__FIXED_SIZE(...) (0 VARVE__EACH(VARVE__FIXED, __VA_ARGS__))

/*
 * The pointer that libvarve finds the event by. The code that records the event reaches it through
 * this pointer, so neither compiler nor linker drops one without the other: an event of a header
 * costs nothing in units that do not use it, and one that is used is found.
 */
#define VARVE__SLOT(event)                                                                         \
	static struct varve_event *event##__slot __attribute__((section("varve_events"), unused))  \
		= &event##__event;                                                                 \
	static inline VARVE__INLINE int event##__enabled(void)                                     \
	{                                                                                          \
		return varve__word(varve__event(&event##__slot)) != 0;                             \
	}

/* clang-format on */

/* The enable word of an event that libvarve does not know (yet). */
static const uint32_t varve__off __attribute__((unused)) = 0;

static inline VARVE__INLINE uint32_t varve__word(const struct varve_event *e)
{
	return __atomic_load_n(__atomic_load_n(&e->word, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
}

/* The compiler does not see that a slot never changes. */
static inline VARVE__INLINE struct varve_event *varve__event(struct varve_event **slot)
{
	__asm__("" : "+r"(slot));
	return *slot;
}

/* The call goes by a pointer that the compiler cannot see through: a function that is bound at its
 * first call needs kilobytes of stack for that, which a signal handler may not have. */
static inline VARVE__INLINE void varve__emit(const struct varve_event *e, void *payload, size_t len)
{
	void (*emit)(const struct varve_event *, void *, size_t) = varve_event_emit;

	__asm__("" : "+r"(emit));
	emit(e, payload, len);
}

/* --- varve_printf ----------------------------------------------------------------------------- */

VARVE_ENUM(varve_level, ("EMERG", VARVE_EMERG), ("ALERT", VARVE_ALERT), ("CRIT", VARVE_CRIT),
	("ERR", VARVE_ERR), ("WARNING", VARVE_WARNING), ("NOTICE", VARVE_NOTICE),
	("INFO", VARVE_INFO), ("DEBUG", VARVE_DEBUG_SYSTEM, VARVE_DEBUG));
VARVE_EVENT(varve, printf, VARVE_INFO, (enumeration, u8, level, varve_level), (str, file),
	(u32, line), (str, text));

/* The text goes through the stack, up to 1023 bytes of it. */
static __attribute__((noinline, unused, format(printf, 4, 5))) void varve__printf(
	int level, const char *file, int line, const char *format, ...)
{
	char text[1024];
	va_list args;

	va_start(args, format);
	if (__builtin_vsnprintf(text, sizeof(text), format, args) < 0)
		text[0] = 0;
	va_end(args);
	varve_varve_printf((uint8_t)level, file, (uint32_t)line, text);
}

/* --- this object's events --------------------------------------------------------------------- */

#ifdef __cplusplus
extern "C" {
#endif
/* Made by the linker; absent where no unit uses an event. */
extern struct varve_event *__start_varve_events[] __attribute__((weak, visibility("hidden")));
extern struct varve_event *__stop_varve_events[] __attribute__((weak, visibility("hidden")));
#ifdef __cplusplus
}
#endif

static struct varve_object varve__object = { (uint32_t)sizeof(struct varve_object),
	VARVE_ABI_VERSION, VARVE__NULL, VARVE__NULL, VARVE__NULL, { VARVE__NULL, VARVE__NULL } };

/* Early, so that other constructors' events count; the destructor accordingly late. */
static __attribute__((constructor(101))) void varve__register(void)
{
	varve__object.begin = __start_varve_events;
	varve__object.end = __stop_varve_events;
	if (varve__object.begin != varve__object.end)
		varve_object_register(&varve__object);
}

static __attribute__((destructor(101))) void varve__unregister(void)
{
	if (varve__object.begin != varve__object.end)
		varve_object_unregister(&varve__object);
}

#endif
