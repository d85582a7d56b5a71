/* SPDX-License-Identifier: MIT */
#ifndef VARVE_LIB_TEST_SUBJECT_H
#define VARVE_LIB_TEST_SUBJECT_H

/* The program under test, in pieces: the same code linked, linked statically, and dlopened. */

#include <varve/varve.h>

/* In a header, for several units, C and C++. */
VARVE_EVENT(subject, tick, VARVE_INFO, (u32, n));
VARVE_EVENT(subject, unused, VARVE_INFO, (u32, never_called));

#ifdef __cplusplus
extern "C" {
#endif
__attribute__((visibility("default"))) int subject_main(int argc, char **argv);
void subject_types_cpp(void);
void subject_other_layout(void);
#ifdef __cplusplus
}
#endif
#endif
