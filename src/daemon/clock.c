/* SPDX-License-Identifier: MIT */
/* Choice of the clock, its frequency, and the time of day: see clock.h. */

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif

#include "daemon/clock.h"
#include "ring/ring.h"

#define NS_PER_S      UINT64_C(1000000000)
#define FIRST_LOOK_NS 5000000  /* baseline of the first measurement */
#define REFINE_AFTER  NS_PER_S /* longer baselines replace it */
#define PAIR_ROUNDS   8

static uint64_t ns_of(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

/* Reads the trace clock and another one as close together as a few tries allow. */
static void read_pair(enum trace_clock kind, clockid_t id, uint64_t *ret_ticks, uint64_t *ret_ns)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < PAIR_ROUNDS; i++) {
		uint64_t before = ring_clock(kind), ns = ns_of(id), after = ring_clock(kind);

		if (after - before < best) {
			best = after - before;
			*ret_ticks = before + best / 2;
			*ret_ns = ns;
		}
	}
}

/* Multiplies without losing the high half. */
static uint64_t mul_div(uint64_t a, uint64_t b, uint64_t c)
{
	unsigned __int128 v = (unsigned __int128)a * b / c;

	return v > UINT64_MAX ? UINT64_MAX : (uint64_t)v;
}

#ifdef __x86_64__
static bool clocksource_is_tsc(void)
{
	static const char *const good[] = { "tsc\n", "kvm-clock\n",
		"hyperv_clocksource_tsc_page\n" };
	char name[64] = "";
	int fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource",
		O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return false;
	n = read(fd, name, sizeof(name) - 1);
	close(fd);
	if (n <= 0)
		return false;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		if (strcmp(name, good[i]) == 0)
			return true;
	return false;
}

/* The counter runs at one rate in all states of the machine, and the kernel trusts it too. */
static bool tsc_usable(void)
{
	unsigned a, b, c, d;

	return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & 1u << 8) && clocksource_is_tsc();
}
#else
static bool tsc_usable(void)
{
	return false;
}
#endif

static bool clock_usable(enum trace_clock kind)
{
	switch (kind) {
	case TRACE_CLOCK_MONOTONIC:
		return true;
	case TRACE_CLOCK_TSC:
		return tsc_usable();
	case TRACE_CLOCK_CNTVCT:
#ifdef __aarch64__
		return true;
#else
		return false;
#endif
	}
	return false;
}

static const struct {
	enum trace_clock kind;
	const char *name;
} clock_names[] = {
	/* in order of preference */
	{ TRACE_CLOCK_TSC, "tsc" },
	{ TRACE_CLOCK_CNTVCT, "cntvct" },
	{ TRACE_CLOCK_MONOTONIC, "monotonic" },
};
#define N_CLOCKS (sizeof(clock_names) / sizeof(clock_names[0]))

const char *clock_name(enum trace_clock kind)
{
	for (size_t i = 0; i < N_CLOCKS; i++)
		if (clock_names[i].kind == kind)
			return clock_names[i].name;
	return "unknown";
}

int clock_parse(const char *name, enum trace_clock *ret_kind)
{
	for (size_t i = 0; i < N_CLOCKS; i++) {
		if (strcmp(clock_names[i].name, name) == 0) {
			*ret_kind = clock_names[i].kind;
			return 0;
		}
	}
	return -EINVAL;
}

static void clock_measure(struct clock_state *c)
{
	uint64_t ticks, raw;

	read_pair(c->kind, CLOCK_MONOTONIC_RAW, &ticks, &raw);
	if (raw > c->raw0 && ticks > c->ticks0)
		c->freq_hz = mul_div(ticks - c->ticks0, NS_PER_S, raw - c->raw0);
}

int clock_init(struct clock_state *c, enum trace_clock wanted)
{
	*c = (struct clock_state){ .kind = wanted, .freq_hz = NS_PER_S };
	for (size_t i = 0; i < N_CLOCKS && !c->kind; i++)
		if (clock_usable(clock_names[i].kind))
			c->kind = clock_names[i].kind;
	if (!clock_usable(c->kind))
		return -ENOTSUP;
	if (c->kind == TRACE_CLOCK_MONOTONIC)
		return 0;
	read_pair(c->kind, CLOCK_MONOTONIC_RAW, &c->ticks0, &c->raw0);
	nanosleep(&(struct timespec){ .tv_nsec = FIRST_LOOK_NS }, NULL);
	clock_measure(c);
	return 0;
}

uint64_t clock_now(const struct clock_state *c)
{
	return ring_clock(c->kind);
}

void clock_map(struct clock_state *c, struct clock_map *ret)
{
	if (c->kind != TRACE_CLOCK_MONOTONIC &&
		ns_of(CLOCK_MONOTONIC_RAW) - c->raw0 >= REFINE_AFTER)
		clock_measure(c);
	ret->kind = c->kind;
	ret->freq_hz = c->freq_hz;
	read_pair(c->kind, CLOCK_REALTIME, &ret->ticks, &ret->unix_ns);
}

uint64_t clock_ticks_of(const struct clock_state *c, uint64_t ns)
{
	return c->freq_hz == NS_PER_S ? ns : mul_div(ns, c->freq_hz, NS_PER_S);
}

uint64_t clock_ns_of(const struct clock_state *c, uint64_t ticks)
{
	return c->freq_hz == NS_PER_S ? ticks : mul_div(ticks, NS_PER_S, c->freq_hz);
}

uint64_t clock_unix_ns(const struct clock_map *m, uint64_t ticks)
{
	uint64_t ns;

	if (ticks == 0)
		return 0;
	if (ticks >= m->ticks)
		return m->unix_ns + mul_div(ticks - m->ticks, NS_PER_S, m->freq_hz);
	ns = mul_div(m->ticks - ticks, NS_PER_S, m->freq_hz);
	return ns < m->unix_ns ? m->unix_ns - ns : 0;
}
