/* SPDX-License-Identifier: MIT */
#ifndef VARVE_LIB_TEST_SUBJECTS_H
#define VARVE_LIB_TEST_SUBJECTS_H

/*
 * Running "subject" programs, which attach to a fake daemon in this process. All calls fail the
 * test on any error.
 */

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "lib/test/fake-daemon.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#else
#define SANITIZED false
#endif

/* How the subject has its libvarve: linked, linked statically, in a module that is loaded, linked
 * statically while another comes with a plugin; MANY is a program of many events. */
enum host { LINKED, STATIC, DLOPENED, MIXED, MANY };
#define N_HOSTS 3 /* that every case should do with: the first ones */

extern const char *const host_names[];
/* Sanitizers cannot be linked statically. */
bool host_missing(enum host host);

/* Programs of another architecture run under an emulator. It ignores madvise(), so that nothing is
 * wiped in a child nor given back, takes its time, and is what /proc/self tells of. */
bool emulated(void);

struct subject {
	pid_t pid;
	int in, out;
};

/* Starts case name of the subject. */
struct subject subject_start(struct fake *f, enum host host, const char *name, const char *arg);
struct subject subject_spawn(char *const argv[]);
/* Lets it take its next step. */
void subject_go_on(struct subject *s);
/* The next line that it says; "" at its end. Without a word in time the test fails. */
char *subject_hear(struct subject *s);
/* Waits for its end. Its status. */
int subject_end(struct subject *s);
/* All of these; it must exit 0. */
void subject_run(struct fake *f, enum host host, const char *name, const char *arg, pid_t *ret_pid);

/* A file of the folder that the subjects are in. Good for three more calls. */
const char *path_of(const char *name);

/* Of a fake_records(): lines without the thread's id, which must be tid in each. In place. */
char *without_tid(char *text, pid_t tid);
/* How often with is found. */
uint32_t count_in(const char *text, const char *with);

int64_t now_us(void);

/* Runs a group of tests with the environment that they want. For main(). */
#define subjects_test(tests) (subjects_init() ? 1 : cmocka_run_group_tests(tests, NULL, NULL))
int subjects_init(void);

#endif
