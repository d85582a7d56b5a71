/* SPDX-License-Identifier: MIT */
#ifndef VARVE_RING_MUTANT_H
#define VARVE_RING_MUTANT_H

/*
 * Steps of the sections that tests replace by wrong ones, each to prove that its test can fail.
 * Real builds define no RING_MUTANT_*, and get the right ones. RING_TEST_CLOCK_SHIFT makes the
 * clock run 2^n times faster, RING_TEST_CLOCK_COARSE clears that many low bits, and
 * RING_TEST_CLOCK_STEPS adds a variable.
 */

#include <limits.h>
#include <stdint.h>

#include "ring/ring.h"

#ifdef RING_TEST_CLOCK_SHIFT
#define RING_TEST_CLOCK	     "shlq $" STRING(RING_TEST_CLOCK_SHIFT) ", %%rax\n"
#define RING_TEST_CLOCK_C(t) ((t) << RING_TEST_CLOCK_SHIFT)
#elif defined(RING_TEST_CLOCK_COARSE)
#define RING_TEST_CLOCK                                                                            \
	"shrq $" STRING(RING_TEST_CLOCK_COARSE) ", %%rax\n"                                        \
						"shlq $" STRING(                                   \
							RING_TEST_CLOCK_COARSE) ", %%rax\n"
#define RING_TEST_CLOCK_C(t) ((t) >> RING_TEST_CLOCK_COARSE << RING_TEST_CLOCK_COARSE)
#elif defined(RING_TEST_CLOCK_STEPS)
extern uint64_t ring_test_clock_step;
#define RING_TEST_CLOCK	     "addq ring_test_clock_step(%%rip), %%rax\n"
#define RING_TEST_CLOCK_C(t) ((t) + ring_test_clock_step)
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

/* pos must be what was gathered. One mutant does not look, the other compares the offset alone. */
#ifdef RING_MUTANT_POS
#define RING_POS_RECHECK
#elif defined(RING_MUTANT_ABA)
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

/* Nor may somebody have claimed meanwhile. The mutants do not look at next, or not at the state of
 * the one that it names: then two of one gen come about. */
#define RING_NEXT_SAME                                                                             \
	"movq %c[s_next_old](%[s]), %%r9\n"                                                        \
	"cmpq %c[l_next](%%r8), %%r9\n"                                                            \
	"jne %l[again]\n"
#define RING_NEXT_STATE_SAME                                                                       \
	"movq %c[s_check](%[s]), %%r9\n"                                                           \
	"movq (%%r9), %%r9\n"                                                                      \
	"cmpq %c[s_check_value](%[s]), %%r9\n"                                                     \
	"jne %l[again]\n"
#if defined(RING_MUTANT_NEXT) || defined(RING_MUTANT_ABA)
#define RING_NEXT_RECHECK
#elif defined(RING_MUTANT_NEXT_STATE) || defined(RING_MUTANT_POS) /* check may be pos */
#define RING_NEXT_RECHECK RING_NEXT_SAME
#else
#define RING_NEXT_RECHECK RING_NEXT_SAME RING_NEXT_STATE_SAME
#endif

/* The mutant never gives up, and hangs under a debugger that single-steps. */
#ifdef RING_MUTANT_ROUNDS
#define RING_ROUNDS INT_MAX
#else
#define RING_ROUNDS RING_ROUNDS_MAX
#endif

#endif
