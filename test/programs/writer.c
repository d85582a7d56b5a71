/* SPDX-License-Identifier: MIT */
/*
 * writer: emits test:seq (seq, tid) events and keeps its own account of them, for tests to compare.
 *
 *     -t N     threads (1); 0: never emits anything
 *     -r RATE  events per second and thread (0: as fast as it can)
 *     -n N     events per thread (0: until stdin ends)
 *     -l FILE  account: one struct account per thread, in a shared file, true at every instant,
 *              also after a SIGKILL: begun = calls begun, done = calls that returned
 *     -s TEXT  each event is followed by test:note (seq, TEXT)
 *     -w       waits for a line on stdin before the first event
 *     -x       exits when all events are out, else waits until stdin ends
 *
 * Says "ready" when each thread has emitted an event, "done" when all are out.
 */

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <varve/varve.h>

VARVE_EVENT(test, seq, VARVE_INFO, (u64, seq), (u32, tid));
VARVE_EVENT(test, note, VARVE_DEBUG, (u64, seq), (str, text));

#define THREADS_MAX 64

struct account {
	uint64_t tid;
	_Atomic uint64_t begun, done;
	uint64_t reserved[5];
};
_Static_assert(sizeof(struct account) == 64, "test/conftest.py reads it");

static struct account *accounts;
static unsigned long n_threads = 1, rate, n_events;
static const char *note;
static atomic_bool stop;
static atomic_uint n_ready;

static void emit(struct account *a, uint64_t seq)
{
	atomic_store_explicit(&a->begun, seq + 1, memory_order_release);
	varve_test_seq(seq, (uint32_t)a->tid);
	atomic_store_explicit(&a->done, seq + 1, memory_order_release);
	if (note)
		varve_test_note(seq, note);
	if (seq == 0)
		atomic_fetch_add(&n_ready, 1);
}

#define LATE_MAX_NS 100000000

/*
 * Sleeps until the time that event seq is due. Fast writers are paced once a millisecond. One that
 * a busy machine kept waiting goes on at its rate from then: to catch up at once would be loud.
 */
static void pace(struct timespec *start, uint64_t seq)
{
	uint64_t batch = rate > 1000 ? rate / 1000 : 1, ns;
	struct timespec due = *start, now;
	int64_t late;

	if (seq % batch != 0)
		return;
	ns = (uint64_t)due.tv_nsec + seq % rate * 1000000000u / rate;
	due.tv_sec += (time_t)(seq / rate + ns / 1000000000u);
	due.tv_nsec = (long)(ns % 1000000000u);
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
	clock_gettime(CLOCK_MONOTONIC, &now);
	late = (now.tv_sec - due.tv_sec) * INT64_C(1000000000) + now.tv_nsec - due.tv_nsec;
	if (late > LATE_MAX_NS) {
		late += start->tv_nsec;
		start->tv_sec += late / 1000000000;
		start->tv_nsec = late % 1000000000;
	}
}

static void *run(void *arg)
{
	struct account *a = (struct account *)arg;
	struct timespec start;

	a->tid = (uint64_t)gettid();
	clock_gettime(CLOCK_MONOTONIC, &start);
	for (uint64_t seq = 0; n_events == 0 || seq < n_events; seq++) {
		if (atomic_load_explicit(&stop, memory_order_relaxed))
			break;
		if (rate)
			pace(&start, seq);
		emit(a, seq);
	}
	return NULL;
}

static void open_account(const char *path)
{
	size_t size = THREADS_MAX * sizeof(struct account);
	int fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666) : -1;
	int flags = MAP_SHARED | (path ? 0 : MAP_ANONYMOUS);

	if (path && (fd < 0 || ftruncate(fd, (off_t)size) < 0)) {
		perror(path);
		exit(2);
	}
	accounts = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, fd, 0);
	if (accounts == MAP_FAILED) {
		perror("mmap");
		exit(2);
	}
	if (fd >= 0)
		close(fd);
}

static void say(const char *line)
{
	puts(line);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS_MAX];
	const char *path = NULL;
	bool wait_first = false, exit_after = false;
	int c;

	while ((c = getopt(argc, argv, "t:r:n:l:s:wx")) != -1) {
		switch (c) {
		case 't':
			n_threads = strtoul(optarg, NULL, 10);
			break;
		case 'r':
			rate = strtoul(optarg, NULL, 10);
			break;
		case 'n':
			n_events = strtoul(optarg, NULL, 10);
			break;
		case 'l':
			path = optarg;
			break;
		case 's':
			note = optarg;
			break;
		case 'w':
			wait_first = true;
			break;
		case 'x':
			exit_after = true;
			break;
		default:
			return 2;
		}
	}
	if (n_threads > THREADS_MAX)
		return 2;
	open_account(path);
	if (wait_first) {
		say("waiting");
		if (getchar() == EOF)
			return 0;
	}
	for (unsigned long i = 0; i < n_threads; i++)
		if (pthread_create(&threads[i], NULL, run, &accounts[i]) != 0)
			return 2;
	while (atomic_load(&n_ready) < n_threads)
		usleep(1000);
	say("ready");
	if (n_events == 0) {
		while (getchar() != EOF)
			;
		atomic_store(&stop, true);
	}
	for (unsigned long i = 0; i < n_threads; i++)
		pthread_join(threads[i], NULL);
	say("done");
	if (n_events != 0 && !exit_after)
		while (getchar() != EOF)
			;
	return 0;
}
