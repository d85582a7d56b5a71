/* SPDX-License-Identifier: MIT */
/*
 * The sub-buffer protocol as a Promela model, checked exhaustively for a small pool: section.h has
 * the pseudo-code that this follows, ring.h the states. Run it with ./check.
 *
 * What is modelled: writers on CPUs, each step of their sections and of the way there; preemption at
 * any step, which restarts a section; a retiring daemon thread on the same CPU; the daemon's grant,
 * promise, revoke, reclaim, punch, pin and copy. A thread that is never scheduled again is one that
 * was killed or stopped there. A sub-buffer holds CAP records; contents are a stamp of whose life
 * they are of. Memory is sequentially consistent: orders are argued in the headers, not here.
 *
 * What must hold is in the assert()s, lettered:
 * (a) a section stores into a sub-buffer only while it owns it, and only where memory exists
 * (b) a commit finds pos and state as they were
 * (c) records counted = records committed (ghost), at each look
 * (d) a pinned sub-buffer is whole and does not change
 * (e) a copy whose state word is unchanged is of that life
 * (f) a stream has at most one claim at large
 *
 * Settings: N_SUBS, GEN_MAX (writers stop there), PROMISES_MAX, TWO_WRITERS (on CPU 0), TWO_CPUS,
 * NO_DAEMON, NO_RETIRER, NO_COPY.
 * Mutants, which must fail: MUTANT_COUNT, MUTANT_NO_ADOPT, MUTANT_REMOTE, MUTANT_NEXT,
 * MUTANT_LATE_CLAIM, MUTANT_PROMISE.
 */

#ifndef N_SUBS
#define N_SUBS 2
#endif
#ifndef GEN_MAX
#define GEN_MAX 2
#endif
#define CAP	     1
#define NONE	     9
#ifndef PROMISES_MAX
#define PROMISES_MAX 2 /* per sub-buffer */
#endif

/* A state word: kind, cpu, gen. Of a PROMISED one, gen is the version of the word. */
#define ABSENT	 0
#define FREE	 1
#define ACTIVE	 2
#define PINNED	 3
#define PROMISED 4
#define WORD(kind, c, g) ((kind) * 32 + (c) * 16 + (g))
#define KIND(s)		 ((s) / 32)
#define CPU(s)		 (((s) / 16) % 2)
#define GEN(s)		 ((s) % 16)
#define LIFE(s)		 ((s) % 32)

/* Per sub-buffer: the words, then what its memory holds. */
byte state[N_SUBS], close_gen[N_SUBS], close_size[N_SUBS];
byte header[N_SUBS], records[N_SUBS];
bool memory[N_SUBS];
byte filled[N_SUBS];   /* ghost: records committed into it in this life */
byte promises[N_SUBS]; /* made so far */

/* Per stream: pos (one word: gen, par, idx, off), next (one word), count. */
byte pos_gen[2], pos_par[2], pos_idx[2], pos_off[2];
byte next_gen[2], next_idx[2];
byte count[2];
byte committed[2]; /* ghost */

/* Per CPU the thread that runs; per thread whether it is in a section, and has lost it. */
byte running[2];
bool in_section[4], restarted[4];

#define SAME_POS(c, g, p, i, o)                                                                    \
	(pos_gen[c] == (g) && pos_par[c] == (p) && pos_idx[c] == (i) && pos_off[c] == (o))
#ifdef MUTANT_NEXT
#define SAME_NEXT(c, g, i) true
#else
#define SAME_NEXT(c, g, i) (next_gen[c] == (g) && next_idx[c] == (i))
#endif
#define RETIRED(v, s)                                                                              \
	(KIND(s) == ACTIVE && pos_gen[CPU(s)] >= GEN(s) && pos_idx[CPU(s)] != (v))
#define OWNED(v, c, g)                                                                             \
	(memory[v] && state[v] == WORD(ACTIVE, c, g) &&                                            \
		((pos_gen[c] == (g) && pos_idx[c] == (v)) || pos_gen[c] + 1 == (g)))
#define COUNTED(c) (count[c] - ((count[c] % 2) != pos_par[c] -> 1 : 0))
#define ORPHAN(v, c) (state[v] == WORD(ACTIVE, c, pos_gen[c] + 1))

inline check_orphans(c)
{
	assert(!(ORPHAN(0, c) && ORPHAN(1, c))); /* (f) */
}

/* One step of a thread on its CPU; one of a section; leaving a section that was restarted. */
#define RUN	   (running[cpu] == me)
#define STEP	   (RUN && !restarted[me])
#define RESTART(l) atomic { RUN && restarted[me] -> in_section[me] = false; goto l }

inline section_begin()
{
	atomic { RUN -> restarted[me] = false; in_section[me] = true }
}

proctype writer(byte me; byte cpu)
{
	byte gen, par, idx, off, hint_gen, hint_idx, v, old, seen;
	bool adopt;

record:
	atomic {
		RUN -> gen = 0; par = 0; idx = 0; off = 0; hint_gen = 0; hint_idx = 0; v = 0; old = 0;
		seen = 0; adopt = false;
		if :: pos_gen[cpu] >= GEN_MAX && pos_off[cpu] == CAP -> goto done :: else fi
	}
	section_begin();
	if
	:: atomic {
		STEP -> gen = pos_gen[cpu]; par = pos_par[cpu]; idx = pos_idx[cpu]; off = pos_off[cpu];
		assert(COUNTED(cpu) == committed[cpu]); /* (c) */
		if :: off == CAP -> in_section[me] = false :: else fi
	}
	:: RESTART(record)
	fi;
	if :: off == CAP -> goto switch :: else fi;
	if
	:: atomic { STEP -> assert(OWNED(idx, cpu, gen)); records[idx] = WORD(0, cpu, gen) } /* (a) */
	:: RESTART(record)
	fi;
	if
#ifdef MUTANT_COUNT
	:: atomic { STEP -> count[cpu] = count[cpu] + 1 }
#else
	:: atomic { STEP -> count[cpu] = COUNTED(cpu) + 1 }
#endif
	:: RESTART(record)
	fi;
	if
	:: atomic {
		STEP -> assert(SAME_POS(cpu, gen, par, idx, off)); /* (b) */
		pos_off[cpu] = off + 1; pos_par[cpu] = 1 - par;
		committed[cpu]++; filled[idx]++; in_section[me] = false
	}
	:: RESTART(record)
	fi;
	goto record;

switch: /* gather, outside the section */
	atomic {
		RUN -> gen = pos_gen[cpu]; par = pos_par[cpu]; idx = pos_idx[cpu]; off = pos_off[cpu];
		if :: off != CAP || gen >= GEN_MAX -> goto record :: else fi
	}
	atomic { RUN -> hint_gen = next_gen[cpu]; hint_idx = next_idx[cpu] }
	adopt = false;
	if
	:: hint_gen == gen + 1 && hint_idx < N_SUBS ->
		atomic {
			RUN -> seen = state[hint_idx];
			if
			:: seen == WORD(ACTIVE, cpu, gen + 1) -> adopt = true; v = hint_idx; old = seen
			:: else
			fi
		}
	:: else
	fi;
	if
	:: adopt
	:: else ->
		/* Any one will do for safety; which is the oldest is another matter. */
		if :: atomic { RUN -> v = 0 } :: atomic { RUN -> v = 1 } fi;
		atomic {
			RUN -> old = state[v];
			if
			:: KIND(old) == FREE || KIND(old) == ACTIVE || KIND(old) == PROMISED
			:: else -> goto record
			fi
		}
		if
		:: KIND(old) == PROMISED ->
			atomic { RUN -> memory[v] = true } /* populate */
			atomic {
				RUN ->
#ifdef MUTANT_PROMISE
				/* The word without its version. */
				if :: KIND(state[v]) == PROMISED -> state[v] = WORD(FREE, 0, 0) :: else fi;
#else
				if :: state[v] == old -> state[v] = WORD(FREE, 0, 0) :: else fi;
#endif
				old = WORD(FREE, 0, 0)
			}
		:: KIND(old) == FREE
		:: KIND(old) == ACTIVE ->
			atomic { RUN -> if :: RETIRED(v, old) :: else -> goto record fi }
		fi
	fi;
#ifdef MUTANT_LATE_CLAIM
	atomic {
		RUN ->
		if
		:: state[v] == old -> state[v] = WORD(ACTIVE, cpu, gen + 1); filled[v] = 0
		:: else -> goto record
		fi;
		check_orphans(cpu)
	}
#endif
	section_begin();
	if
	:: atomic {
		STEP ->
		if
		:: SAME_POS(cpu, gen, par, idx, off) && SAME_NEXT(cpu, hint_gen, hint_idx)
		:: else -> in_section[me] = false; goto record
		fi
	}
	:: RESTART(record)
	fi;
	if
	:: atomic {
		STEP ->
		if
		:: adopt || hint_gen != gen + 1 || hint_idx >= N_SUBS
		:: else ->
			if :: state[hint_idx] == seen :: else -> in_section[me] = false; goto record fi
		fi
	}
	:: RESTART(record)
	fi;
	if
	:: atomic { STEP -> next_gen[cpu] = gen + 1; next_idx[cpu] = v }
	:: RESTART(record)
	fi;
#ifndef MUTANT_LATE_CLAIM
	if
	:: atomic {
		STEP ->
		if
		:: state[v] == old -> state[v] = WORD(ACTIVE, cpu, gen + 1); filled[v] = 0
		:: else -> in_section[me] = false; goto record
		fi;
		check_orphans(cpu)
	}
	:: RESTART(record)
	fi;
#endif
	if
	:: atomic { STEP -> assert(OWNED(v, cpu, gen + 1)); close_gen[v] = 0; close_size[v] = 0 } /* (a) */
	:: RESTART(record)
	fi;
	if
	:: atomic { STEP -> assert(OWNED(v, cpu, gen + 1)); header[v] = WORD(0, cpu, gen + 1); records[v] = 0 }
	:: RESTART(record)
	fi;
	if
	:: atomic {
		STEP ->
		if
		:: idx < N_SUBS ->
			assert(OWNED(idx, cpu, gen)); /* (a) */
			close_gen[idx] = WORD(0, cpu, gen); close_size[idx] = off
		:: else
		fi
	}
	:: RESTART(record)
	fi;
	if
	:: atomic {
		STEP -> assert(state[v] == WORD(ACTIVE, cpu, gen + 1) && SAME_POS(cpu, gen, par, idx, off)); /* (b) */
		pos_gen[cpu] = gen + 1; pos_idx[cpu] = v; pos_off[cpu] = 0; in_section[me] = false
	}
	:: RESTART(record)
	fi;
	goto record;
done:	skip
}

/* The daemon's thread that retires CPU 0's stream. It decides on a pos, and runs the same section. */
#ifdef MUTANT_REMOTE
#define R_RUN  true
#define R_STEP true
#else
#define R_RUN  RUN
#define R_STEP STEP
#endif

proctype retirer(byte me; byte cpu)
{
	byte gen, par, idx, off, hint_gen, hint_idx, v, seen;
	bool adopt;

again:
	atomic {
		R_RUN -> par = pos_par[cpu]; hint_gen = 0; hint_idx = 0; v = 0; seen = 0; adopt = false;
		gen = pos_gen[cpu]; idx = pos_idx[cpu]; off = pos_off[cpu];
		if :: gen >= GEN_MAX -> goto done :: else fi
	}
	if :: idx >= N_SUBS -> goto again :: else fi;
	atomic { R_RUN -> hint_gen = next_gen[cpu]; hint_idx = next_idx[cpu] }
#ifndef MUTANT_NO_ADOPT
	if
	:: hint_gen == gen + 1 && hint_idx < N_SUBS ->
		atomic {
			R_RUN -> seen = state[hint_idx];
			if :: seen == WORD(ACTIVE, cpu, gen + 1) -> adopt = true; v = hint_idx :: else fi
		}
	:: else
	fi;
#endif
	atomic { R_RUN -> restarted[me] = false; in_section[me] = true }
	if
	:: atomic {
		R_STEP ->
		if
		:: SAME_POS(cpu, gen, par, idx, off) && SAME_NEXT(cpu, hint_gen, hint_idx)
		:: else -> in_section[me] = false; goto again
		fi
	}
	:: RESTART(again)
	fi;
#ifndef MUTANT_NO_ADOPT
	if
	:: atomic {
		R_STEP ->
		if
		:: adopt || hint_gen != gen + 1 || hint_idx >= N_SUBS
		:: else ->
			if :: state[hint_idx] == seen :: else -> in_section[me] = false; goto again fi
		fi
	}
	:: RESTART(again)
	fi;
#endif
	if
	:: atomic {
		R_STEP -> next_gen[cpu] = gen + 1;
		if :: adopt -> next_idx[cpu] = v :: else -> next_idx[cpu] = NONE fi
	}
	:: RESTART(again)
	fi;
	if
	:: atomic {
		R_STEP ->
		if
		:: adopt ->
			if
			:: state[v] == seen ->
				assert(OWNED(v, cpu, gen + 1)); /* (a) */
				close_gen[v] = 0; close_size[v] = 0
			:: else -> in_section[me] = false; goto again
			fi
		:: else
		fi
	}
	:: RESTART(again)
	fi;
	if
	:: atomic {
		R_STEP -> assert(OWNED(idx, cpu, gen)); /* (a) */
		close_gen[idx] = WORD(0, cpu, gen); close_size[idx] = off
	}
	:: RESTART(again)
	fi;
	if
	:: atomic {
		R_STEP -> assert(SAME_POS(cpu, gen, par, idx, off)); /* (b) */
		pos_gen[cpu] = gen + 1; pos_idx[cpu] = NONE; pos_off[cpu] = CAP; in_section[me] = false
	}
	:: RESTART(again)
	fi;
	goto again;
done:	skip
}

/* The kernel: puts any of a CPU's threads on it at any time. One that was in a section restarts. */
proctype scheduler(byte cpu; byte n; byte a; byte b; byte c)
{
	byte who;

	do
	:: atomic {
		if :: who = a :: who = b :: n > 2 -> who = c fi;
		if
		:: running[cpu] == who
		:: else ->
			if :: in_section[running[cpu]] -> restarted[running[cpu]] = true :: else fi;
			running[cpu] = who
		fi;
		who = 0
	}
	od
}

proctype daemon()
{
	byte v, s, gen, n, life, h, r;
	bool current;

next:
	atomic { v = 0; s = 0; gen = 0; n = 0; life = 0; h = 0; r = 0; current = false }
	if :: v = 0 :: v = 1 fi;
	s = state[v];
	if
	:: KIND(s) == ABSENT ->
		/* Punched, late; then granted with memory, or promised without. */
		if
		:: memory[v] = false
		:: atomic { memory[v] = true; if :: state[v] == s -> state[v] = WORD(FREE, 0, 0) :: else fi }
		:: promises[v] < PROMISES_MAX ->
			atomic {
				promises[v]++;
				if :: state[v] == s -> state[v] = WORD(PROMISED, 0, promises[v]) :: else fi
			}
		fi
	:: KIND(s) == PROMISED || KIND(s) == FREE ->
		atomic { if :: state[v] == s -> state[v] = WORD(ABSENT, 0, 0) :: else fi } /* revoke */
	:: KIND(s) == ACTIVE ->
		if
		:: atomic { RETIRED(v, s) -> skip };
			if
			:: atomic { true -> if :: state[v] == s -> state[v] = WORD(ABSENT, 0, 0) :: else fi } /* reclaim */
			:: atomic {
				true ->
				if
				:: state[v] == s -> state[v] = WORD(PINNED, 0, 0) + LIFE(s)
				:: else -> goto next
				fi
			};
				atomic {
					life = close_gen[v]; h = header[v]; r = records[v];
					/* (d) whole: closed by its own life with all that was committed, or empty */
					assert((life == LIFE(s) && close_size[v] == filled[v]) ||
						(life == 0 && filled[v] == 0));
					assert(life != LIFE(s) || close_size[v] == 0 ||
						(h == LIFE(s) && r == LIFE(s)))
				};
				atomic {
					assert(header[v] == h && records[v] == r && close_gen[v] == life); /* (d) */
					state[v] = s
				}
			fi
#ifndef NO_COPY
		:: atomic {
			gen = pos_gen[CPU(s)]; n = pos_off[CPU(s)];
			current = (pos_idx[CPU(s)] == v && gen == GEN(s))
		};
			if :: gen < GEN(s) -> goto next :: else fi;
			if
			:: !current ->
				atomic {
					n = close_size[v];
					if :: close_gen[v] != LIFE(s) -> goto next :: else fi
				}
			:: else
			fi;
			h = header[v];
			r = records[v];
			/* (e) */
			atomic {
				if
				:: state[v] == s -> assert(n == 0 || (h == LIFE(s) && r == LIFE(s)))
				:: else
				fi
			}
#endif
		fi
	:: else
	fi;
	goto next
}

init {
	byte i;

	atomic {
		do
		:: i < N_SUBS -> state[i] = WORD(ABSENT, 0, 0); i++
		:: else -> break
		od;
		/* One there already, the rest to come; all of them where there is no daemon. */
		state[0] = WORD(FREE, 0, 0);
		memory[0] = true;
#ifdef NO_DAEMON
		state[1] = WORD(FREE, 0, 0);
		memory[1] = true;
#endif
		pos_idx[0] = NONE; pos_idx[1] = NONE;
		pos_off[0] = CAP; pos_off[1] = CAP;
		running[1] = 2;
		i = 0;
		run writer(0, 0);
#ifndef NO_RETIRER
		run retirer(1, 0);
#endif
#ifdef TWO_CPUS
		run writer(2, 1);
#endif
#ifdef TWO_WRITERS
		run writer(3, 0);
		run scheduler(0, 3, 0, 1, 3);
#else
		run scheduler(0, 2, 0, 1, 1);
#endif
#ifndef NO_DAEMON
		run daemon();
#endif
	}
}
