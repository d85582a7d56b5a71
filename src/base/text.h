/* SPDX-License-Identifier: MIT */
#ifndef VARVE_BASE_TEXT_H
#define VARVE_BASE_TEXT_H

/* Texts for people: made, and, where they came from elsewhere, made fit to be shown. */

#include <stddef.h>

/*
 * Copies at most n bytes, up to a NUL, to to, which has room for n + 1: control characters and what
 * is not UTF-8 become '?'; a character that is cut off at the end too. Always ends with NUL.
 */
void text_clean(char *to, const char *from, size_t n);

/* A message in one new string, for ret_error outputs. Owned by the caller; NULL without memory. */
char *text_format(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
