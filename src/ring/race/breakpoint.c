/* SPDX-License-Identifier: MIT */
/*
 * Stops a writer at each instruction of recording, switching and retiring, one run per instruction
 * and variant: kills it there, or lets others work (on the same CPU) and then kills it or lets it
 * go on. After each run the whole pool is read, and must hold what was acknowledged.
 *
 *	breakpoint rseq|lock [orphan] [retire-meanwhile] [retire] [every=N] [must-find=DEFECT]
 *	breakpoint rseq debugger
 *
 * orphan: three writers were killed right after their claims before. retire-meanwhile: the stream is retired
 * while the writer is stopped. retire: the one stopped is the daemon, in a retirement.
 * every=N: each Nth instruction only, for slow machines. Addresses come from objdump.
 * debugger: the writer is stopped before its commit, a debugger makes it call a function there, and
 * it goes on without being restarted: pos goes back. Nothing can prevent that; it must heal.
 */

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __x86_64__
#include <sys/user.h>

#include "ring/race/harness.h"

#define TEST_CPU   0
#define N_RECORDS  4 /* by the one who is stopped */
#define BODY	   40u
#define POINTS_MAX 32768

enum variant { KILL, KILL_LATER, GO_ON, GO_ON_1, GO_ON_100, GO_ON_ROUND, N_VARIANTS };
/* Records of others while it is stopped; the last is more than the pool holds. */
static const uint32_t work_of[N_VARIANTS] = { 0, 5, 0, 1, 100, 6000 };

static enum ring_mode mode;
static enum trace_clock clock_used;
static bool with_orphan, retire_meanwhile, stop_daemon;
static uint32_t stream;
static uint64_t n_stops, n_kills, n_resumes, n_reached;

struct point {
	uint64_t address;
	char function[40];
};
static struct point points[POINTS_MAX];
static uint32_t n_points;
static uint64_t claimed_address;

static uint64_t n_seen[N_SLOTS];

static void count_seen(uint32_t slot, uint64_t seq)
{
	n_seen[slot]++;
}

/* --- where to stop ------------------------------------------------------------------------------ */

static bool is_ours(const char *function)
{
	static const char *const prefixes[] = { "ring_section", "section_", "switch_stream",
		"ring_switch", "find_free", "find_oldest", "emit_slow", "emit_lock", "ring_emit",
		"is_retired", "largest_gen", "pos_credible", "plan_claim", "scan_next",
		"ring_retire", "retire_run", "ring_lock", "put_head", "lock_clock", "record_once" };

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++)
		if (strncmp(function, prefixes[i], strlen(prefixes[i])) == 0)
			return true;
	return false;
}

static void find_points(void)
{
	char command[600], exe[500], line[400], function[40] = "";
	uint64_t address, slide = 0;
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	FILE *f;

	exe[n > 0 ? n : 0] = 0;
	snprintf(command, sizeof(command), "objdump -d --no-show-raw-insn '%s'", exe);
	f = popen(command, "r");
	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx <%39[^>]>:", &address, function) == 2) {
			if (strcmp(function, "ring_emit") == 0)
				slide = (uint64_t)(uintptr_t)ring_emit - address;
			if (strcmp(function, "section_claimed") == 0)
				claimed_address = address;
		} else if (is_ours(function) && n_points < POINTS_MAX &&
			   sscanf(line, " %lx:", &address) == 1) {
			points[n_points].address = address;
			strcpy(points[n_points++].function, function);
		}
	}
	if (!f || pclose(f) != 0 || n_points == 0) {
		printf("objdump failed\n");
		exit(1);
	}
	for (uint32_t i = 0; i < n_points; i++)
		points[i].address += slide;
	claimed_address += slide;
}

/* --- the one who is stopped --------------------------------------------------------------------- */

static void run_retirement(void)
{
	for (int i = 0; i < 3; i++) {
		uint64_t pos = test_line(0, stream)->pos;

		if (ring_retire(&test_pool, 0, stream, pos, mode, clock_used) == 0)
			return;
	}
}

static pid_t start_traced(uint32_t slot, bool retires, uint32_t body)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		die_with_parent();
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		if (retires)
			run_retirement();
		for (int i = 0; !retires && i < N_RECORDS; i++)
			harness_emit(slot, 0, body);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	return pid;
}

/* Runs the child up to address. Its status; *ret_word is what the breakpoint replaced. */
static int run_to(pid_t pid, uint64_t address, long *ret_word)
{
	int status;

	errno = 0;
	*ret_word = ptrace(PTRACE_PEEKTEXT, pid, address, 0);
	ptrace(PTRACE_POKETEXT, pid, address, (*ret_word & ~0xffL) | 0xcc);
	ptrace(PTRACE_CONT, pid, 0, 0);
	waitpid(pid, &status, 0);
	return status;
}

static bool stopped_there(int status)
{
	return WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP;
}

static void kill_child(pid_t pid)
{
	int status;

	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	/* A pool of lock-owned streams has one process: nobody comes after a dead one, but here. */
	for (uint32_t i = 0; mode == RING_LOCK && i < N_STREAMS; i++)
		test_line(0, i)->owner = 0;
}

static int let_go_on(pid_t pid, uint64_t address, long word)
{
	struct user_regs_struct regs;
	int status;

	ptrace(PTRACE_GETREGS, pid, 0, &regs);
	regs.rip = address;
	ptrace(PTRACE_SETREGS, pid, 0, &regs);
	ptrace(PTRACE_POKETEXT, pid, address, word);
	ptrace(PTRACE_CONT, pid, 0, 0);
	waitpid(pid, &status, 0);
	return status;
}

static void make_orphan(uint32_t slot)
{
	pid_t pid = start_traced(slot, false, 3900);
	long word;

	if (!stopped_there(run_to(pid, claimed_address, &word)))
		defect(DEFECT_WEDGED, "no claim");
	kill_child(pid);
}

/* --- one run ------------------------------------------------------------------------------------ */

/* Leaves so little room that the stopped one will switch between its records. */
static void position(void)
{
	for (int i = 0; i < 100000; i++) {
		uint64_t p = test_line(0, stream)->pos;
		uint32_t mask = ring_sub_mask(&test_writer, p);
		uint32_t left = mask - (pos_off(p) & mask);

		if (mask != 0 && left >= 110 && left < 165)
			return;
		harness_emit(1, 0, BODY);
	}
	defect(DEFECT_WEDGED, "never in position");
}

static uint32_t count_orphans(void)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < test_pool.n_subs; i++)
		n += ring_classify(&test_pool, i, test_state(i), NULL) == RING_ORPHAN;
	return n;
}

static void check_after(uint32_t slot, const struct point *p, enum variant v)
{
	const struct slot *s = &harness->slot[slot];
	uint64_t before = harness_committed(), found = STAT_GET(messages);

	memset(n_seen, 0, sizeof(n_seen));
	harness_snapshot(true);
	if (v != GO_ON_ROUND && n_seen[slot] != s->acked && n_seen[slot] != s->acked + 1)
		defect(DEFECT_LOST, "%lu seen, %lu acknowledged", n_seen[slot], s->acked);
	if (count_orphans() > 1)
		defect(DEFECT_ORPHANS, "%u", count_orphans());
	for (int i = 0; i < 3; i++)
		if (!harness_emit(2, 0, BODY))
			defect(DEFECT_WEDGED, "others cannot record any more");
	if (harness_committed() != before + 3)
		defect(DEFECT_COUNT, "3 records counted as %lu", harness_committed() - before);
	harness_snapshot(true);
	if (STAT_GET(messages) != found && found < 20)
		fprintf(stderr, "  at %s %lx, variant %d\n", p->function, p->address, v);
}

static uint64_t acked_in_all(void)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < N_SLOTS; i++)
		n += harness->slot[i].acked;
	return n;
}

static void finish_child(pid_t pid, const struct point *p, long word, enum variant v, uint32_t slot)
{
	int status;

	if (v <= KILL_LATER) {
		kill_child(pid);
		n_kills++;
		return;
	}
	status = let_go_on(pid, p->address, word);
	/* Hit again: with two sub-buffers to fill, the same place comes twice. Once is enough. */
	if (!WIFEXITED(status)) {
		defect(DEFECT_WEDGED, "status %x after going on", status);
		kill_child(pid);
	}
	if (!stop_daemon && harness->slot[slot].acked != N_RECORDS)
		defect(DEFECT_LOST, "%lu of %d recorded after going on", harness->slot[slot].acked,
			N_RECORDS);
	n_resumes++;
}

/* False if the child never came there. */
static bool run_point(const struct point *p, enum variant v, uint32_t slot)
{
	uint64_t committed, acked, grown;
	int status;
	pid_t pid;
	long word;

	position();
	committed = harness_committed();
	acked = acked_in_all();
	/* Each of them adopts what its predecessor left: never more than one at large. */
	for (int i = 0; with_orphan && i < 3; i++)
		make_orphan(slot);
	test_line(0, stream)->last_ts = 0; /* the first record takes the extended form */
	pid = start_traced(slot, stop_daemon, BODY);
	status = run_to(pid, p->address, &word);
	if (WIFEXITED(status)) {
		check_after(slot, p, v);
		return false;
	}
	if (!stopped_there(status)) {
		defect(DEFECT_WEDGED, "status %x at %s", status, p->function);
		kill_child(pid);
		return true;
	}
	n_stops++;
	for (int i = 0; retire_meanwhile && i < 3; i++)
		if (ring_retire(&test_pool, 0, stream, test_line(0, stream)->pos, mode,
			    clock_used) == 0) {
			STAT_ADD(retirements, 1);
			break;
		}
	for (uint32_t i = 0; i < work_of[v]; i++)
		if (!harness_emit(3, 0, BODY))
			defect(DEFECT_WEDGED, "others cannot record at %s", p->function);
	finish_child(pid, p, word, v, slot);
	grown = harness_committed() - committed - (acked_in_all() - acked);
	if (grown > (v <= KILL_LATER ? 1 : 0))
		defect(DEFECT_COUNT, "count grew %ld more than acknowledged", (long)grown);
	check_after(slot, p, v);
	return true;
}

/* --- a debugger's call ---------------------------------------------------------------------------- */

static void __attribute__((noinline, used)) called_by_debugger(void)
{
	__asm__ volatile("nop\n\tint3\n\tnop");
}

/* The commit is the last instruction but one of the compact section. */
static uint64_t commit_address(void)
{
	for (uint32_t i = 2; i < n_points; i++)
		if (strcmp(points[i].function, "section_compact_end") == 0)
			return points[i - 2].address;
	return 0;
}

static void run_debugger(uint32_t slot)
{
	struct user_regs_struct regs, call;
	uint64_t address = commit_address(), pos;
	int status;
	pid_t pid;
	long word;

	position();
	pid = start_traced(slot, false, BODY);
	if (!stopped_there(run_to(pid, address, &word))) {
		defect(DEFECT_WEDGED, "no commit");
		kill_child(pid);
		return;
	}
	ptrace(PTRACE_GETREGS, pid, 0, &regs);
	call = regs;
	call.rip = (uint64_t)(uintptr_t)called_by_debugger;
	call.rsp -= 512; /* red zone */
	ptrace(PTRACE_SETREGS, pid, 0, &call);
	ptrace(PTRACE_CONT, pid, 0, 0);
	waitpid(pid, &status, 0);
	for (int i = 0; i < 400; i++)
		harness_emit(3, 0, BODY);
	pos = test_line(0, stream)->pos;
	regs.rip = address;
	ptrace(PTRACE_SETREGS, pid, 0, &regs);
	ptrace(PTRACE_POKETEXT, pid, address, word);
	ptrace(PTRACE_SINGLESTEP, pid, 0, 0);
	waitpid(pid, &status, 0);
	n_reached += gen_after(pos_gen(pos), pos_gen(test_line(0, stream)->pos));
	ptrace(PTRACE_CONT, pid, 0, 0);
	waitpid(pid, &status, 0);
	if (!WIFEXITED(status)) {
		defect(DEFECT_WEDGED, "status %x after the call", status);
		kill_child(pid);
	}
	for (uint32_t i = 0; i < work_of[GO_ON_ROUND]; i++)
		if (!harness_emit(3, 0, BODY))
			defect(DEFECT_WEDGED, "others cannot record any more");
	/* What it spoilt is overwritten by now, and nothing is out of reach. */
	harness_snapshot(true);
	if (count_orphans() != 0)
		defect(DEFECT_ORPHANS, "%u", count_orphans());
}

static int check_debugger(void)
{
	uint32_t healed;

	for (uint32_t slot = 16; slot < 36; slot++)
		run_debugger(slot);
	healed = test_line(0, stream)->lost[LOST_CORRUPT];
	printf("pos went back %lu times, put right %u times\n", n_reached, healed);
	if (n_reached == 0 || healed != n_reached)
		defect(DEFECT_COUNT, "not all was put right and counted");
	return harness_finish(NULL);
}

int main(int argc, char **argv)
{
	const char *must_find = NULL;
	uint32_t slot = 16, every = 1;

	mode = argc > 1 && strcmp(argv[1], "lock") == 0 ? RING_LOCK : RING_RSEQ;
	clock_used = mode == RING_LOCK ? TRACE_CLOCK_MONOTONIC : TRACE_CLOCK_TSC;
	for (int i = 2; i < argc; i++) {
		with_orphan |= strcmp(argv[i], "orphan") == 0;
		retire_meanwhile |= strcmp(argv[i], "retire-meanwhile") == 0;
		stop_daemon |= strcmp(argv[i], "retire") == 0;
		if (strncmp(argv[i], "every=", 6) == 0)
			every = (uint32_t)atoi(argv[i] + 6);
		if (strncmp(argv[i], "must-find=", 10) == 0)
			must_find = argv[i] + 10;
	}
	pin_to_cpu(TEST_CPU);
	stream = TEST_CPU; /* also the first of those by lock */
	/* Gens wrap in the middle. */
	harness_init(mode, 3, GEN_MASK - 100, 2);
	harness_grant_all(1);
	find_points();
	harness_on_record = count_seen;
	if (argc > 2 && strcmp(argv[2], "debugger") == 0)
		return check_debugger();
	for (uint32_t i = 0; i < n_points; i += every) {
		for (int v = 0; v < N_VARIANTS && slot < N_SLOTS; v++) {
			if (!run_point(&points[i], v, slot++))
				break;
			n_reached += v == 0;
		}
	}
	printf("%s%s%s%s: %u instructions, %lu reached, %lu stops, %lu kills, %lu late resumes\n",
		mode == RING_LOCK ? "lock" : "rseq", with_orphan ? " orphan" : "",
		retire_meanwhile ? " retire-meanwhile" : "", stop_daemon ? " retire" : "", n_points,
		n_reached, n_stops, n_kills, n_resumes);
	if (n_reached < 50 / every)
		defect(DEFECT_WEDGED, "only %lu instructions reached", n_reached);
	return harness_finish(must_find);
}

#else

int main(void)
{
	printf("skipped: breakpoints of x86-64 only\n");
	return 77;
}

#endif
