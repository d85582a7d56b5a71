/* SPDX-License-Identifier: MIT */
/*
 * libvarve against a fake daemon in this process: runs "subject" programs, which attach to it, and
 * reads their pools back.
 */

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "lib/test/fake-daemon.h"

extern char **environ;

#define WATCHDOG_MS 20000

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#else
#define SANITIZED false
#endif

static const char *const hosts[] = { "linked", "static", "dlopened", "mixed", "many" };

static const char *const programs[] = { "subject", "subject-static", NULL, "subject-mixed",
	"subject-many" };

/* --- running subjects ------------------------------------------------------------------------- */

struct subject {
	pid_t pid;
	int in, out;
};

static int64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static const char *path_of(const char *name)
{
	static char path[4][512];
	static int turn;
	char *p = path[turn++ % 4];

	snprintf(p, sizeof(path[0]), "%s/%s", getenv("SUBJECT_DIR"), name);
	return p;
}

/* Programs of another architecture run under an emulator. It ignores madvise(), so that nothing is
 * wiped in a child nor given back, takes its time, and is what /proc/self tells of. */
static bool emulated(void)
{
	return *getenv("SUBJECT_WRAPPER");
}

/* Sanitizers cannot be linked statically. */
static bool host_missing(int host)
{
	return host == 1 && access(path_of("subject-static"), X_OK) < 0;
}

static struct subject spawn(char *const argv[])
{
	int in[2], out[2];
	struct subject s;
	posix_spawn_file_actions_t actions;

	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, in[0], 0);
	posix_spawn_file_actions_adddup2(&actions, out[1], 1);
	assert_int_equal(posix_spawnp(&s.pid, argv[0], &actions, NULL, argv, environ), 0);
	posix_spawn_file_actions_destroy(&actions);
	close(in[0]);
	close(out[1]);
	s.in = in[1];
	s.out = out[0];
	return s;
}

/* Starts case name of the subject, hosted in one of three ways. */
static struct subject start(struct fake *f, int host, const char *name, const char *arg)
{
	char *argv[10] = { 0 }, *wrapper = getenv("SUBJECT_WRAPPER");
	static char words[256];
	int n = 0;

	setenv("VARVE_RUNDIR", f->dir, 1);
	snprintf(words, sizeof(words), "%s", wrapper);
	for (char *w = strtok(words, " "); w && n < 4; w = strtok(NULL, " "))
		argv[n++] = w;
	if (host == 2) {
		argv[n++] = (char *)path_of("subject-host");
		argv[n++] = (char *)path_of("libsubject-module.so");
	} else {
		argv[n++] = (char *)path_of(programs[host]);
	}
	argv[n++] = (char *)name;
	if (arg)
		argv[n++] = (char *)arg;
	return spawn(argv);
}

static void go_on(struct subject *s)
{
	assert_int_equal(write(s->in, "\n", 1), 1);
}

/* A line that the subject says; without a word within the watchdog's time the test fails. */
static char *hear(struct subject *s)
{
	static char line[256];
	size_t n = 0;

	while (n < sizeof(line) - 1) {
		struct pollfd p = { .fd = s->out, .events = POLLIN };

		if (poll(&p, 1, WATCHDOG_MS) != 1)
			fail_msg("the subject says nothing");
		if (read(s->out, &line[n], 1) != 1 || line[n] == '\n')
			break;
		n++;
	}
	line[n] = 0;
	return line;
}

static int end(struct subject *s)
{
	int status, waited = 0;

	close(s->in);
	while (waitpid(s->pid, &status, WNOHANG) == 0) {
		usleep(1000);
		if (++waited > WATCHDOG_MS) {
			kill(s->pid, SIGKILL);
			fail_msg("the subject hangs");
		}
	}
	close(s->out);
	return status;
}

static void run(struct fake *f, int host, const char *name, const char *arg, pid_t *ret_pid)
{
	struct subject s = start(f, host, name, arg);

	if (ret_pid)
		*ret_pid = s.pid;
	while (*hear(&s))
		continue;
	assert_int_equal(end(&s), 0);
}

/* --- what a pool should hold ------------------------------------------------------------------ */

/* Lines without the thread's id, which must be tid in each. */
static char *without_tid(char *text, pid_t tid)
{
	char prefix[32], *to = text;
	size_t n = (size_t)snprintf(prefix, sizeof(prefix), "%d ", tid);

	for (char *line = text; *line;) {
		char *next = strchr(line, '\n') + 1;

		if (strncmp(line, prefix, n) != 0)
			fail_msg("not of thread %d: %.60s", tid, line);
		memmove(to, line + n, (size_t)(next - line) - n);
		to += (size_t)(next - line) - n;
		line = next;
	}
	*to = 0;
	return text;
}

static uint32_t count_lines(const char *text, const char *with)
{
	uint32_t n = 0;

	for (const char *p = text; (p = strstr(p, with)); p += strlen(with))
		n++;
	return n;
}

static const char *const types_expected =
	"types:none\n"
	"types:unsigned_ a=255 b=65535 c=4294967295 d=18446744073709551615\n"
	"types:signed_ a=-128 b=-32768 c=-2147483648 d=-9223372036854775808\n"
	"types:hex a=0xff b=0xfffe c=0xfffffffd d=0xfffffffffffffffc\n"
	"types:other yes=1 no=0 f=1.5 d=-2.25\n"
	"types:strings a=\"abc\" null=\"(null)\" empty=\"\" t=\"de\" t_long=\"fghi\" t_null=\"(null)\""
	" s=\"lm\"\" s_null=\"(null)\"\n"
	"types:arrays a=[-1,0,1] null=[0,0] s=[0xab,0x1] s_null=[] s_empty=[] s_wide=[-70000]\n"
	"types:enums w=rain:1 d=below zero:-5 d2=above:odd:7 other=9\n"
	"types:many int=1 new=2 class=3 default=4 e=5 f=6 g=7 h=8 i=9 j=10 k=11 l=12 m=13 n=14 o=15"
	" p=16 q=17 r=18 s=19 t=20\n"
	"types:long_ first=\"short\" between=1 second=\"also\" rest=[1,2,3] last=2\n";

static void test_types(void **state)
{
	for (int host = 0; host < 3; host++) {
		if (host_missing(host))
			continue;
		for (int language = 0; language < 2; language++) {
			struct fake *f = fake_new(false);
			struct fake_pool *p;
			pid_t pid;
			char *text, *cut;

			print_message("%s, %s\n", hosts[host], language ? "C++" : "C");
			run(f, host, "types", language ? "cpp" : "c", &pid);
			p = fake_pool_of(f, pid);
			assert_non_null(p);
			text = without_tid(fake_records(f, p, 0), pid);
			cut = text + strlen(types_expected);
			assert_true(strlen(text) > strlen(types_expected));
			assert_int_equal(strncmp(text, types_expected, strlen(types_expected)), 0);
			/* Fixed parts: 1 + 4 + 1 + 2 + 4 of 4000; the first string takes the rest.
			 */
			assert_int_equal(strspn(cut + strlen("types:long_ first=\""), "x"), 3988);
			assert_non_null(strstr(cut, "\" between=1 second=\"\" rest=[] last=2\n"));
			assert_int_equal(count_lines(cut, ",0"), (3979 / 8 - 3) + 3999);
			assert_int_equal(count_lines(text, "\n"), 13);
			for (int why = 0; why < N_LOST_REASONS; why++)
				assert_int_equal(fake_lost(p, 0, why), 0);
			free(text);
			fake_free(f);
		}
	}
}

/* Two layouts of a name; one layout from two units. */
static void test_layouts(void **state)
{
	struct fake *f = fake_new(false);
	pid_t pid;
	char *text;

	run(f, 0, "layouts", NULL, &pid);
	text = without_tid(fake_records(f, fake_pool_of(f, pid), 0), pid);
	assert_string_equal(text, "subject:twice n=5\n"
				  "subject:twice text=\"second layout\"\n"
				  "subject:tick n=1\n");
	free(text);
	fake_free(f);
}

static void test_printf(void **state)
{
	struct fake *f = fake_new(false);
	struct subject s;
	char *text;

	f->channels = 3;
	s = start(f, 0, "printf", NULL);
	assert_string_equal(hear(&s), "1 1");
	assert_int_equal(end(&s), 0);
	text = fake_records(f, fake_pool_of(f, s.pid), 0);
	assert_int_equal(count_lines(text, "varve:printf level=WARNING:4 file=\""), 1);
	assert_int_equal(count_lines(text, " text=\"text and 42\"\n"), 1);
	assert_int_equal(count_lines(text, "level=DEBUG:13"), 1);
	assert_int_equal(count_lines(text, "y"), 1023 + count_lines(text, "types"));
	free(text);
	fake_free(f);
}

/* Channels: a bit in the word, and one in the pool. */
static void test_channels(void **state)
{
	struct fake *f = fake_new(false);
	struct fake_pool *p;
	struct subject s;
	uint64_t n0, n1;

	f->word = 0;
	f->channels = 3;
	s = start(f, 0, "steps", "5");
	go_on(&s);
	hear(&s);
	p = fake_pool_of(f, s.pid);
	assert_int_equal(fake_count(f, p, 0), 0);
	fake_enable(f, "subject:tick", 7);
	go_on(&s);
	hear(&s);
	fake_enable(f, "subject:tick", 2);
	go_on(&s);
	hear(&s);
	fake_enable(f, "subject:tick", 4);
	go_on(&s);
	hear(&s);
	n0 = fake_count(f, p, 0);
	n1 = fake_count(f, p, 1);
	assert_int_equal(n0, 1);
	assert_int_equal(n1, 2);
	atomic_store(&ring_header(&p->ring)->channels, 0);
	fake_enable(f, "subject:tick", 3);
	go_on(&s);
	hear(&s);
	assert_int_equal(end(&s), 0);
	assert_int_equal(fake_count(f, p, 0), 1);
	fake_free(f);
}

static void test_hello(void **state)
{
	struct fake *f = fake_new(false);
	struct rlimit old, tight = { 1 << 30, 1 << 30 };
	struct fake_pool *p;
	pid_t pid;

	run(f, 0, "ticks", "1", &pid);
	p = fake_pool_of(f, pid);
	if (!emulated()) {
		assert_string_equal(p->hello.name, "subject");
		assert_string_equal(p->exe, path_of("subject"));
	}
	assert_int_equal(p->hello.ppid, getpid());
	assert_true(p->hello.room == UINT64_MAX);
	/* What is in no unit's code is not described. */
	for (uint32_t i = 1; i < f->n_layouts; i++)
		assert_string_not_equal(f->layouts[i]->name, "unused");
	if (SANITIZED || emulated()) { /* need terabytes of addresses */
		fake_free(f);
		return;
	}
	assert_int_equal(getrlimit(RLIMIT_AS, &old), 0);
	tight.rlim_max = old.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_AS, &tight), 0);
	run(f, 0, "ticks", "1", &pid);
	assert_int_equal(setrlimit(RLIMIT_AS, &old), 0);
	p = fake_pool_of(f, pid);
	assert_in_range(p->hello.room, 1 << 28, 1 << 29);
	fake_free(f);
}

/* --- daemons that come, go and misbehave ------------------------------------------------------ */

static int64_t time_run(struct fake *f, const char *name, const char *arg)
{
	int64_t begun = now_us();

	run(f, 0, name, arg, NULL);
	return now_us() - begun;
}

static int by_value(const void *a, const void *b)
{
	return *(const int64_t *)a < *(const int64_t *)b ? -1 : 1;
}

static int64_t median_run(struct fake *f)
{
	int64_t t[9];

	for (int i = 0; i < 9; i++)
		t[i] = time_run(f, "ticks", "10");
	qsort(t, 9, sizeof(t[0]), by_value);
	return t[4];
}

/* Steps until something is recorded in a pool other than old, which it returns: a pool stays empty
 * whose asker had given up by the time it was made. *n counts the events. */
static struct fake_pool *step_until_recorded(
	struct fake *f, struct subject *s, const struct fake_pool *old, uint32_t *n)
{
	for (int i = 0; i < 100; i++) {
		struct fake_pool *p;

		go_on(s);
		hear(s);
		++*n;
		p = fake_pool_of(f, s->pid);
		if (p && p != old && fake_count(f, p, 0) > 0)
			return p;
		usleep(30000);
	}
	fail_msg("nothing is recorded");
	return NULL;
}

/* However the daemon is, a start takes at most 50 ms longer, and no event call takes long. */
static void test_patience(void **state)
{
	static const struct {
		enum fake_manner manner;
		const char *name;
		int64_t start_ms;
	} bad[] = { { FAKE_SERVE, "serving", 75 }, { FAKE_DEAF, "deaf", 75 },
		{ FAKE_MUTE, "mute", 75 }, { FAKE_HALF, "half", 75 },
		{ FAKE_GARBAGE, "garbage", 75 }, { FAKE_UNSEALED, "unsealed", 75 },
		{ FAKE_REFUSE, "refusing", 75 } };
	struct fake *f;
	int64_t plain;

	if (emulated())
		skip();
	f = fake_new(true);
	unsetenv("VARVE_ATTACH_MS");
	plain = median_run(f);
	print_message("absent: %d us\n", (int)plain);
	fake_free(f);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct subject s;
		int64_t median;

		f = fake_new(false);
		f->manner = bad[i].manner;
		median = median_run(f);
		s = start(f, 0, "slowest", "300");
		print_message("%s: start +%d us, slowest call %s us\n", bad[i].name,
			(int)(median - plain), hear(&s));
		assert_int_equal(end(&s), 0);
		assert_in_range(median - plain + 1000000, 0, 1000000 + bad[i].start_ms * 1000);
		if (bad[i].manner != FAKE_SERVE && bad[i].manner != FAKE_UNSEALED &&
			bad[i].manner != FAKE_HALF)
			assert_int_equal(f->n_pools, 0);
		fake_free(f);
	}
	setenv("VARVE_ATTACH_MS", "5000", 1);
}

/* Events before the daemon recovers are counted, those after it recorded. */
static void test_recovery(void **state)
{
	struct fake *f = fake_new(false);
	struct fake_pool *p;
	struct subject s;
	uint32_t i;

	f->manner = FAKE_MUTE;
	setenv("VARVE_ATTACH_MS", "20", 1);
	s = start(f, 0, "steps", "100");
	setenv("VARVE_ATTACH_MS", "5000", 1);
	for (i = 0; i < 3; i++) {
		go_on(&s);
		hear(&s);
	}
	f->manner = FAKE_SERVE;
	p = step_until_recorded(f, &s, NULL, &i);
	assert_int_equal(fake_count(f, p, 0) + fake_lost(p, 0, LOST_UNATTACHED), i);
	assert_in_range(fake_count(f, p, 0), 1, 97);
	assert_int_equal(end(&s), 0);
	fake_free(f);
}

/* The control file is there, nobody listens; then somebody does. */
static void test_later(void **state)
{
	struct fake *f = fake_new(false);
	struct subject s;
	uint32_t n = 1;

	atomic_store(&f->words[0], 0);
	s = start(f, 0, "steps", "200");
	go_on(&s);
	hear(&s);
	assert_int_equal(f->n_conversations, 0);
	atomic_store(&f->words[0], WORD_ATTACH);
	step_until_recorded(f, &s, NULL, &n);
	assert_int_equal(end(&s), 0);
	fake_free(f);
}

/* A new daemon from nothing: a new pool, and the memory of the old one is given back. */
static void test_renewal(void **state)
{
	struct fake *f = fake_new(false);
	struct fake_pool *p, *old = NULL;
	struct subject s = start(f, 0, "steps", "2000");
	uint32_t n = 0;

	for (int round = 0; round < 12; round++) {
		uint32_t before = n;

		if (round)
			fake_renew(f);
		p = step_until_recorded(f, &s, old, &n);
		go_on(&s);
		hear(&s);
		n++;
		assert_int_equal(
			fake_count(f, p, 0) + fake_lost(p, 0, LOST_UNATTACHED), n - before);
		assert_true(fake_count(f, p, 0) >= 2);
		if (old && !emulated())
			assert_int_equal(ring_pool_bytes(&old->ring), 0);
		old = p;
	}
	assert_int_equal(end(&s), 0);
	fake_free(f);
}

static void test_wait(void **state)
{
	struct fake *f = fake_new(true);
	struct subject s;
	uint32_t n = 1;

	setenv("VARVE_WAIT", "1", 1);
	s = start(f, 0, "steps", "200");
	unsetenv("VARVE_WAIT");
	go_on(&s);
	hear(&s);
	fake_listen(f);
	step_until_recorded(f, &s, NULL, &n);
	assert_int_equal(end(&s), 0);
	fake_free(f);
}

/* --- forks, signals, objects ------------------------------------------------------------------ */

static void test_fork(void **state)
{
	static const char *const rounds = "30";

	if (emulated())
		skip();
	for (int host = 0; host < 3; host++) {
		if (host_missing(host))
			continue;
		struct fake *f = fake_new(false);
		struct subject s = start(f, host, "fork", rounds);
		uint32_t n_children = 0, expected;
		char *line;
		pid_t pid;

		while (*(line = hear(&s))) {
			struct fake_pool *p;
			char *text, own[32];

			assert_int_equal(sscanf(line, "%d %u", &pid, &expected), 2);
			n_children++;
			p = fake_pool_of(f, pid);
			if (!expected) {
				assert_null(p);
				continue;
			}
			assert_non_null(p);
			text = fake_records(f, p, 0);
			snprintf(own, sizeof(own), "%d subject:child pid=%d ", pid, pid);
			assert_int_equal(count_lines(text, own), 100);
			assert_int_equal(count_lines(text, "subject:child"), 100);
			free(text);
		}
		assert_int_equal(end(&s), 0);
		assert_int_equal(n_children, 34);
		print_message("%s: %u conversations for %u pools\n", hosts[host],
			f->n_conversations, f->n_pools);
		fake_free(f);
	}
}

static void test_signals(void **state)
{
	for (int host = 0; host < 3; host++) {
		if (host_missing(host))
			continue;
		struct fake *f = fake_new(false);
		struct subject s = start(f, host, "signals", NULL);
		uint32_t n, handled[3];
		uint64_t lost = 0;
		struct fake_pool *p;
		char *line = hear(&s);

		assert_int_equal(
			sscanf(line, "%u %u %u %u", &n, &handled[0], &handled[1], &handled[2]), 4);
		assert_int_equal(end(&s), 0);
		print_message("%s: %u events, handlers %u %u %u\n", hosts[host], n, handled[0],
			handled[1], handled[2]);
		assert_true(handled[0] > 100 && handled[2] == handled[0]);
		p = fake_pool_of(f, s.pid);
		for (int why = 0; why < N_LOST_REASONS; why++)
			lost += fake_lost(p, 0, why);
		/* All kept ones verify; the flight ring keeps what fits. */
		assert_true(fake_count(f, p, 0) > 1000);
		assert_int_equal(lost, fake_lost(p, 0, LOST_NOBUF));
		fake_free(f);
	}
}

static void test_altstack(void **state)
{
	struct fake *f;
	struct subject s;

	if (SANITIZED || emulated())
		skip(); /* their run time needs more than we may use */
	f = fake_new(false);
	atomic_store(&f->words[0], 0);
	s = start(f, 0, "altstack", NULL);
	assert_string_equal(hear(&s), "ready");
	atomic_store(&f->words[0], WORD_ATTACH);
	go_on(&s);
	assert_int_equal(end(&s), 0);
	assert_int_equal(f->n_conversations, 1);
	fake_free(f);
}

static void test_load(void **state)
{
	struct fake *f = fake_new(false);
	struct fake_pool *p;
	struct subject s = start(f, 0, "load", path_of("subject-plugin.so"));
	char *text;

	assert_string_equal(hear(&s), "");
	assert_int_equal(end(&s), 0);
	p = fake_pool_of(f, s.pid);
	text = fake_records(f, p, 0);
	assert_int_equal(count_lines(text, "where=\"call\""), 50);
	assert_int_equal(count_lines(text, "where=\"constructor\""), 50);
	assert_int_equal(count_lines(text, "where=\"destructor\""), 50);
	assert_int_equal(f->n_conversations, 51);
	free(text);
	fake_free(f);
}

/* Threads that emit, load, unload and fork, while the daemon is replaced again and again. */
static void test_storm(void **state)
{
	for (int i = 0; i < 2; i++) {
		struct fake *f = fake_new(false);
		struct subject s = start(f, 0, i ? "quick-storm" : "storm", getenv("SUBJECT_DIR"));
		int64_t until = now_us() + 1200000;
		struct fake_pool *p;

		while (now_us() < until) {
			usleep(40000);
			fake_renew(f);
		}
		assert_string_equal(hear(&s), "");
		assert_int_equal(end(&s), 0);
		p = fake_pool_of(f, s.pid);
		assert_non_null(p);
		print_message("%u pools in %u conversations, %u records in the last\n", f->n_pools,
			f->n_conversations, (unsigned)fake_count(f, p, 0));
		fake_free(f);
	}
}

/* Two copies of libvarve in one process: each has its own pool. */
static void test_mixed(void **state)
{
	struct fake *f = fake_new(false);
	struct subject s = start(f, 3, "load", path_of("subject-plugin.so"));
	char *text;

	assert_string_equal(hear(&s), "");
	assert_int_equal(end(&s), 0);
	assert_int_equal(f->n_pools, 2);
	assert_int_equal(f->pools[0]->hello.pid, s.pid);
	assert_int_equal(f->pools[1]->hello.pid, s.pid);
	assert_int_equal(fake_count(f, f->pools[0], 0), 0);
	text = fake_records(f, f->pools[1], 0);
	assert_int_equal(count_lines(text, "where=\"call\""), 50);
	free(text);
	fake_free(f);
}

/* Descriptions and ids that need several messages. */
static void test_many(void **state)
{
	struct fake *f = fake_new(false);
	char *text, *line;
	pid_t pid;
	int n = 0;

	run(f, 4, "", NULL, &pid);
	text = line = without_tid(fake_records(f, fake_pool_of(f, pid), 0), pid);
	for (; *line; line = strchr(line, '\n') + 1, n++) {
		char expected[200];

		snprintf(expected, sizeof(expected),
			"many:an_event_with_a_long_name_%03d number_of_the_event_called_%03d=%d\n",
			n, n, n);
		assert_int_equal(strncmp(line, expected, strlen(expected)), 0);
	}
	assert_int_equal(n, 500);
	free(text);
	fake_free(f);
}

/* Without restartable sequences, and with the other clock. */
static void test_lock_mode(void **state)
{
	struct fake *f;
	char *text;
	pid_t pid;

	for (int i = 0; i < 2; i++) {
		setenv(i ? "FAKE_CLOCK" : "GLIBC_TUNABLES", i ? "1" : "glibc.pthread.rseq=0", 1);
		f = fake_new(false);
		run(f, 0, "types", "c", &pid);
		assert_int_equal(fake_pool_of(f, pid)->hello.mode, RING_LOCK);
		text = without_tid(fake_records(f, fake_pool_of(f, pid), 0), pid);
		assert_int_equal(strncmp(text, types_expected, strlen(types_expected)), 0);
		free(text);
		run(f, 0, "signals", NULL, &pid);
		assert_true(fake_count(f, fake_pool_of(f, pid), 0) > 1000);
		fake_free(f);
		unsetenv(i ? "FAKE_CLOCK" : "GLIBC_TUNABLES");
	}
}

static void test_leftovers(void **state)
{
	for (int host = 0; host < 3; host++) {
		if (host_missing(host))
			continue;
		struct fake *f = fake_new(false);
		struct subject s = start(f, host, "leftovers", NULL);

		/* An emulator has a thread of its own. */
		assert_string_equal(hear(&s), emulated() ? "0 2" : "0 1");
		assert_int_equal(end(&s), 0);
		fake_free(f);
	}
}

static void test_seccomp(void **state)
{
	struct fake *f;
	struct subject s;

	if (SANITIZED || emulated())
		skip(); /* their run time needs more than we may use */
	f = fake_new(false);
	atomic_store(&f->words[0], 0);
	s = start(f, 0, "seccomp", NULL);
	assert_string_equal(hear(&s), "ready");
	atomic_store(&f->words[0], WORD_ATTACH);
	go_on(&s);
	assert_string_equal(hear(&s), "done");
	assert_int_equal(end(&s), 0);
	assert_int_equal(f->n_conversations, 0);
	fake_free(f);
}

/* A million events: no system call, but for a wake of the sleeping daemon once a second. */
static void test_syscalls(void **state)
{
	struct fake *f;
	char trace[128], line[512];
	char *argv[] = { (char *)"strace", (char *)"-o", trace, (char *)path_of("subject"),
		(char *)"syscalls", (char *)"1000000", NULL };
	int64_t begun = now_us();
	uint32_t n_futex = 0, n_other = 0;
	struct subject s;
	bool between = false;
	FILE *in;

	if (SANITIZED || emulated() || system("strace -V > /dev/null 2>&1") != 0)
		skip();
	f = fake_new(false);
	f->control->asleep = 1;
	snprintf(trace, sizeof(trace), "%s/strace", f->dir);
	setenv("VARVE_RUNDIR", f->dir, 1);
	s = spawn(argv);
	assert_string_equal(hear(&s), "begin");
	assert_string_equal(hear(&s), "end");
	assert_int_equal(end(&s), 0);
	in = fopen(trace, "r");
	assert_non_null(in);
	while (fgets(line, sizeof(line), in)) {
		if (strstr(line, "\"begin"))
			between = true;
		else if (strstr(line, "\"end"))
			between = false;
		else if (between && strncmp(line, "futex(", 6) == 0)
			n_futex++;
		else if (between)
			n_other++;
	}
	fclose(in);
	assert_int_equal(n_other, 0);
	assert_in_range(n_futex, 0, (now_us() - begun) / 1000000 + 1);
	assert_int_equal(f->n_pools, 1);
	assert_true(fake_count(f, f->pools[0], 0) > 1000);
	fake_free(f);
}

/* A socket of somebody else's, beside a control file of root's. */
static void test_trust_peer(void **state)
{
	const int stranger = 12345;
	struct fake *f;
	char path[128];
	pid_t pid;

	if (geteuid() != 0)
		skip();
	f = fake_new(true);
	snprintf(path, sizeof(path), "%s/control", f->dir);
	assert_int_equal(chmod(f->dir, 0777), 0);
	/* Of this thread alone, so not by the function of that name. */
	assert_int_equal(syscall(SYS_setresuid, -1, stranger, -1), 0);
	fake_listen(f);
	assert_int_equal(syscall(SYS_setresuid, -1, 0, -1), 0);
	assert_int_equal(chown(path, 0, 0), 0);
	run(f, 0, "ticks", "1", &pid);
	assert_int_equal(f->n_conversations, 0);
	assert_int_equal(chown(f->dir, (uid_t)stranger, 0), 0);
	run(f, 0, "ticks", "1", &pid);
	assert_int_equal(f->n_conversations, 1);
	fake_free(f);
}

/* A control file of somebody else is not obeyed. */
static void test_trust(void **state)
{
	struct fake *f;
	char path[128];
	pid_t pid;

	if (geteuid() != 0)
		skip();
	f = fake_new(false);
	snprintf(path, sizeof(path), "%s/control", f->dir);
	assert_int_equal(chown(path, 12345, 12345), 0);
	run(f, 0, "ticks", "1", &pid);
	assert_int_equal(f->n_conversations, 0);
	/* Of the directory's owner it is. */
	assert_int_equal(chown(f->dir, 12345, 12345), 0);
	run(f, 0, "ticks", "1", &pid);
	assert_int_equal(f->n_conversations, 1);
	fake_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_types),
		cmocka_unit_test(test_layouts),
		cmocka_unit_test(test_printf),
		cmocka_unit_test(test_channels),
		cmocka_unit_test(test_hello),
		cmocka_unit_test(test_patience),
		cmocka_unit_test(test_recovery),
		cmocka_unit_test(test_later),
		cmocka_unit_test(test_renewal),
		cmocka_unit_test(test_wait),
		cmocka_unit_test(test_fork),
		cmocka_unit_test(test_signals),
		cmocka_unit_test(test_altstack),
		cmocka_unit_test(test_load),
		cmocka_unit_test(test_storm),
		cmocka_unit_test(test_mixed),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_lock_mode),
		cmocka_unit_test(test_leftovers),
		cmocka_unit_test(test_seccomp),
		cmocka_unit_test(test_syscalls),
		cmocka_unit_test(test_trust),
		cmocka_unit_test(test_trust_peer),
	};

	if (!getenv("SUBJECT_DIR")) {
		fprintf(stderr, "SUBJECT_DIR must name the folder of the subject programs\n");
		return 1;
	}
	setenv("SUBJECT_WRAPPER", "", 0);
	signal(SIGPIPE, SIG_IGN);
	/* The machine may be busy with other tests. */
	setenv("VARVE_ATTACH_MS", "5000", 1);
	/* The subjects fork with threads about, which the search for leaks does not like. */
	setenv("ASAN_OPTIONS", "detect_leaks=0:detect_stack_use_after_return=0", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
