/* SPDX-License-Identifier: MIT */
#ifndef VARVE_RING_MUTANT_H
#define VARVE_RING_MUTANT_H

/*
 * Steps of the sections that tests replace by wrong ones, each to prove that its test can fail.
 * Real builds define no RING_MUTANT_*, and get the right ones. RING_TEST_CLOCK_SHIFT makes the
 * clock run 2^n times faster, RING_TEST_CLOCK_COARSE clears that many low bits.
 */

#ifdef RING_TEST_CLOCK_SHIFT
#define RING_TEST_CLOCK	     "shlq $" STRING(RING_TEST_CLOCK_SHIFT) ", %%rax\n"
#define RING_TEST_CLOCK_C(t) ((t) << RING_TEST_CLOCK_SHIFT)
#elif defined(RING_TEST_CLOCK_COARSE)
#define RING_TEST_CLOCK                                                                            \
	"shrq $" STRING(RING_TEST_CLOCK_COARSE) ", %%rax\n"                                        \
	"shlq $" STRING(RING_TEST_CLOCK_COARSE) ", %%rax\n"
#define RING_TEST_CLOCK_C(t) ((t) >> RING_TEST_CLOCK_COARSE << RING_TEST_CLOCK_COARSE)
#else
#define RING_TEST_CLOCK
#define RING_TEST_CLOCK_C(t) (t)
#endif

/* r10 = count for pos r9 plus one record. The mutant trusts what it finds, and drifts at kills. */
#ifdef RING_MUTANT_COUNT
#define RING_COUNT                                                                                 \
	"movq %c[l_count](%%r8), %%r10\n"                                                          \
	"incq %%r10\n"
#else
#define RING_COUNT                                                                                 \
	"movq %%r9, %%rdx\n"                                                                       \
	"shrq $32, %%rdx\n"                                                                        \
	"andl $1, %%edx\n"                                                                         \
	"movq %c[l_count](%%r8), %%r10\n"                                                          \
	"addq %%rdx, %%r10\n"                                                                      \
	"orq $1, %%r10\n"                                                                          \
	"subq %%rdx, %%r10\n"
#endif

/* Leaves for the extended header where the compact one could not be told from an earlier wrap. */
#ifdef RING_MUTANT_WRAP
#define RING_WRAP_TEST
#else
#define RING_WRAP_TEST                                                                             \
	"movq %%rax, %%rdx\n"                                                                      \
	"subq %c[l_last_ts](%%r8), %%rdx\n"                                                        \
	"shrq $32, %%rdx\n"                                                                        \
	"jnz %l[extended]\n"
#endif

/* The mutant moves pos before the record is there. */
#ifdef RING_MUTANT_EARLY_COMMIT
#define RING_EARLY_COMMIT                                                                          \
	"leaq (%%r9, %[len]), %%r10\n"                                                             \
	"btcq $32, %%r10\n"                                                                        \
	"movq %%r10, (%%r8)\n"
#else
#define RING_EARLY_COMMIT
#endif

/* pos must be what was gathered, all 64 bits. The mutant compares the offset alone: ABA. */
#ifdef RING_MUTANT_SHORT_POS
#define RING_POS_RECHECK                                                                           \
	"movl %c[s_pos_old](%[s]), %%r9d\n"                                                        \
	"cmpl (%%r8), %%r9d\n"                                                                     \
	"jne %l[again]\n"
#else
#define RING_POS_RECHECK                                                                           \
	"movq %c[s_pos_old](%[s]), %%r9\n"                                                         \
	"cmpq (%%r8), %%r9\n"                                                                      \
	"jne %l[again]\n"
#endif

/* Nor may somebody have claimed meanwhile. The mutant does not look: two orphans in one stream. */
#ifdef RING_MUTANT_NEXT
#define RING_NEXT_RECHECK
#else
#define RING_NEXT_RECHECK                                                                          \
	"movq %c[s_next_old](%[s]), %%r9\n"                                                        \
	"cmpq %c[l_next](%%r8), %%r9\n"                                                            \
	"jne %l[again]\n"                                                                          \
	"movq %c[s_check](%[s]), %%r9\n"                                                           \
	"movq (%%r9), %%r9\n"                                                                      \
	"cmpq %c[s_check_value](%[s]), %%r9\n"                                                     \
	"jne %l[again]\n"
#endif

#endif
