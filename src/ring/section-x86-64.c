/* SPDX-License-Identifier: MIT */
/*
 * The writer's sections as restartable sequences for x86-64; section.h has them as pseudo-code.
 *
 * The kernel restarts a section (jumps to its abort handler) whenever the thread was preempted,
 * migrated or got a signal between its first instruction and the one after its commit. So inside
 * one, nobody else runs on this CPU, and a killed thread simply never reaches the commit.
 *
 * The store to rseq_cs is the instruction right before the section. Sections may be left by a jump:
 * the kernel clears rseq_cs itself when it finds the thread outside. Nothing here may call, and no
 * instruction may come between the commit and the label 2.
 *
 * Register use: rax clock and scratch, rdx scratch, r8 the stream's line, r9 pos, r10 scratch,
 * r11 where the record goes, ecx the region shift. The labels section_* name addresses for tests.
 */

#include "ring/section.h"

#if RING_HAVE_RSEQ

#include "ring/mutant.h"

#define STRING_(x) #x
#define STRING(x)  STRING_(x)

/* clang-format off */

/* The signature makes the abort handler recognisable; the kernel compares it with the one that
 * libc registered. In front of it, the start of an undefined instruction (ud1). */
#define RSEQ_BEGIN                                                                                 \
	".pushsection __rseq_cs, \"aw\"\n"                                                         \
	".balign 32\n"                                                                             \
	"3: .long 0, 0\n"                                                                          \
	".quad 1f, 2f - 1f, 4f\n"                                                                  \
	".popsection\n"                                                                            \
	".pushsection __rseq_failure, \"ax\"\n"                                                    \
	".byte 0x0f, 0xb9, 0x3d\n"                                                                 \
	".long 0x53053053\n"                                                                       \
	"4: jmp %l[again]\n"                                                                       \
	".popsection\n"                                                                            \
	"leaq 3b(%%rip), %%rax\n"                                                                  \
	"movq %%rax, 8(%[rseq])\n"                                                                 \
	"1:\n"

/* rax = clock. Tests make it coarse (ties) or fast (wraps). */
#define CLOCK                                                                                      \
	"rdtsc\n"                                                                                  \
	"shlq $32, %%rdx\n"                                                                        \
	"orq %%rdx, %%rax\n" RING_TEST_CLOCK

/* r8 = line of this CPU's stream, r9 = p, r11 = where the record goes; leaves if there is no room. */
#define FIND_ROOM                                                                                  \
	"movl 4(%[rseq]), %%eax\n"                                                                 \
	"cmpl %c[w_n_streams](%[w]), %%eax\n"                                                      \
	"jae %l[norseq]\n"                                                                         \
	"shlq $6, %%rax\n"                                                                         \
	"leaq (%[lines], %%rax), %%r8\n"                                                           \
	"movq (%%r8), %%r9\n"                                                                      \
	"movl %%r9d, %%r11d\n"                                                                     \
	"andl %c[w_pool_mask](%[w]), %%r11d\n"                                                     \
	"movl %%r11d, %%eax\n"                                                                     \
	"shrl %%cl, %%eax\n"                                                                       \
	"movl %c[w_sub_mask](%[w], %%rax, 4), %%r10d\n"                                            \
	"movl %%r11d, %%eax\n"                                                                     \
	"andl %%r10d, %%eax\n"                                                                     \
	"leaq 7(%%rax, %[len]), %%rax\n"                                                           \
	"cmpq %%r10, %%rax\n"                                                                      \
	"ja %l[full]\n"                                                                            \
	"addq %c[w_base](%[w]), %%r11\n"

/* Copies the body by words behind a header of that many bytes. */
#define COPY_BODY(header)                                                                          \
	"movl $" STRING(header) ", %%edx\n"                                                        \
	"5: cmpq %[len], %%rdx\n"                                                                  \
	"jae 6f\n"                                                                                 \
	"movq -" STRING(header) "(%[body], %%rdx), %%r10\n"                                        \
	"movq %%r10, (%%r11, %%rdx)\n"                                                             \
	"addq $8, %%rdx\n"                                                                         \
	"jmp 5b\n"                                                                                 \
	"6:\n"

/* count = N + 1 for a p of either parity, whatever a dead predecessor left; then the commit. */
#define COUNT_AND_COMMIT                                                                           \
	RING_COUNT                                                                                 \
	"addq %[len], %%r9\n"                                                                      \
	"btcq $32, %%r9\n"                                                                         \
	"movq %%r10, %c[l_count](%%r8)\n"                                                          \
	"movq %%r9, (%%r8)\n" /* (W1) */                                                           \
	"2:\n"                                                                                     \
	"movq %%rax, %c[l_last_ts](%%r8)\n"

#define RECORD_OPERANDS                                                                            \
	[rseq] "r"(rseq), [lines] "r"(lines), [w] "r"(w), [head] "r"(r->head),                     \
		[body] "r"(r->body), [len] "r"(r->len), [shift] "c"(w->region_shift),              \
		[w_n_streams] "i"(offsetof(struct ring_writer, n_streams)),                        \
		[w_pool_mask] "i"(offsetof(struct ring_writer, pool_mask)),                        \
		[w_sub_mask] "i"(offsetof(struct ring_writer, sub_mask)),                          \
		[w_base] "i"(offsetof(struct ring_writer, base)),                                  \
		[l_count] "i"(offsetof(struct stream_line, count)),                                \
		[l_last_ts] "i"(offsetof(struct stream_line, last_ts))

#define CLOBBERS "rax", "rdx", "r8", "r9", "r10", "r11", "memory", "cc"

_Static_assert(sizeof(struct stream_line) == 1 << 6, "the sections shift the cpu by 6");
_Static_assert(offsetof(struct stream_line, pos) == 0, "the sections know");
_Static_assert(RECORD_SLACK == 8, "the sections allow for a spill of 7 bytes");
_Static_assert(RECORD_COMPACT == 6 && RECORD_EXTENDED == 14, "the sections know");

enum section_result ring_section_compact(struct rseq_area *rseq, struct stream_line *lines,
	const struct ring_writer *w, const struct section_record *r)
{
	__asm__ volatile goto(RSEQ_BEGIN
		"section_compact:\n"
		FIND_ROOM
		CLOCK
		RING_WRAP_TEST
		RING_EARLY_COMMIT
		"movq %%rax, %%rdx\n"
		"shlq $16, %%rdx\n"
		"orq %[head], %%rdx\n"
		"movq %%rdx, (%%r11)\n"
		COPY_BODY(6)
		COUNT_AND_COMMIT
		"section_compact_end:\n"
		:
		: RECORD_OPERANDS
		: CLOBBERS
		: again, full, extended, norseq);
	return SECTION_OK;
again:
	return SECTION_AGAIN;
full:
	return SECTION_FULL;
extended:
	return SECTION_EXTENDED;
norseq:
	return SECTION_NORSEQ;
}

enum section_result ring_section_extended(struct rseq_area *rseq, struct stream_line *lines,
	const struct ring_writer *w, const struct section_record *r)
{
	__asm__ volatile goto(RSEQ_BEGIN
		"section_extended:\n"
		FIND_ROOM
		CLOCK
		"movq %%rax, %%rdx\n"
		"shlq $48, %%rdx\n"
		"orq %[head], %%rdx\n"
		"movq %%rdx, (%%r11)\n"
		"movq %%rax, %%rdx\n"
		"shrq $16, %%rdx\n"
		"movq %%rdx, 8(%%r11)\n"
		COPY_BODY(14)
		COUNT_AND_COMMIT
		"section_extended_end:\n"
		:
		: RECORD_OPERANDS
		: CLOBBERS
		: again, full, norseq);
	return SECTION_OK;
again:
	return SECTION_AGAIN;
full:
	return SECTION_FULL;
norseq:
	return SECTION_NORSEQ;
}

enum section_result ring_section_switch(struct rseq_area *rseq, const struct ring_switch *s)
{
	__asm__ volatile goto(RSEQ_BEGIN
		"section_switch:\n"
		/* Is all as it was gathered? */
		"movl %c[s_cpu](%[s]), %%eax\n"
		"cmpl 4(%[rseq]), %%eax\n"
		"jne %l[again]\n"
		"movq %c[s_line](%[s]), %%r8\n"
		RING_POS_RECHECK
		RING_NEXT_RECHECK
		/* The claim: next first, then the state. */
		"movq %c[s_next_new](%[s]), %%r9\n"
		"movq %%r9, %c[l_next](%%r8)\n"
		"movq %c[s_entry](%[s]), %%r11\n"
		"movq %c[s_state_old](%[s]), %%rax\n"
		"movq %c[s_state_new](%[s]), %%r10\n"
		"lock cmpxchgq %%r10, (%%r11)\n" /* (W2) */
		"jne %l[again]\n"
		"section_claimed:\n"
		CLOCK
		/* The new one's entry and header. */
		"movq $0, %c[e_close](%%r11)\n"
		"movq %%rax, %c[e_begin_ts](%%r11)\n"
		"movq %c[s_header](%[s]), %%r9\n"
		"movabsq $0xfffff000ffffffff, %%rdx\n"
		"andq %%rdx, %%r10\n"
		"movq %%r10, (%%r9)\n"
		"movq %%rax, 8(%%r9)\n"
		"movq %c[s_n_before](%[s]), %%rdx\n"
		"movq %%rdx, 16(%%r9)\n"
		"movq %c[s_lost](%[s]), %%rdx\n"
		"movq %%rdx, 24(%%r9)\n"
		/* The old one's end. */
		"movq %c[s_current](%[s]), %%r9\n"
		"testq %%r9, %%r9\n"
		"jz 5f\n"
		"movq %%rax, %c[e_end_ts](%%r9)\n"
		"movq %c[s_close_word](%[s]), %%rdx\n"
		"movq %%rdx, %c[e_close](%%r9)\n"
		"5:\n"
		"movq %c[s_pos_new](%[s]), %%r9\n"
		"movq %%r9, (%%r8)\n" /* (W1) */
		"2:\n"
		"movq %%rax, %c[l_last_ts](%%r8)\n"
		"section_switch_end:\n"
		:
		: [rseq] "r"(rseq), [s] "r"(s),
		  [s_cpu] "i"(offsetof(struct ring_switch, cpu)),
		  [s_line] "i"(offsetof(struct ring_switch, line)),
		  [s_entry] "i"(offsetof(struct ring_switch, entry)),
		  [s_current] "i"(offsetof(struct ring_switch, current)),
		  [s_header] "i"(offsetof(struct ring_switch, header)),
		  [s_check] "i"(offsetof(struct ring_switch, check)),
		  [s_check_value] "i"(offsetof(struct ring_switch, check_value)),
		  [s_pos_old] "i"(offsetof(struct ring_switch, pos_old)),
		  [s_pos_new] "i"(offsetof(struct ring_switch, pos_new)),
		  [s_next_old] "i"(offsetof(struct ring_switch, next_old)),
		  [s_next_new] "i"(offsetof(struct ring_switch, next_new)),
		  [s_state_old] "i"(offsetof(struct ring_switch, state_old)),
		  [s_state_new] "i"(offsetof(struct ring_switch, state_new)),
		  [s_close_word] "i"(offsetof(struct ring_switch, close_word)),
		  [s_n_before] "i"(offsetof(struct ring_switch, n_before)),
		  [s_lost] "i"(offsetof(struct ring_switch, lost)),
		  [l_next] "i"(offsetof(struct stream_line, next)),
		  [l_last_ts] "i"(offsetof(struct stream_line, last_ts)),
		  [e_close] "i"(offsetof(struct sub_entry, close)),
		  [e_begin_ts] "i"(offsetof(struct sub_entry, begin_ts)),
		  [e_end_ts] "i"(offsetof(struct sub_entry, end_ts))
		: CLOBBERS
		: again);
	return SECTION_OK;
again:
	return SECTION_AGAIN;
}

/* clang-format on */

#endif
