/* SPDX-License-Identifier: MIT */
#ifndef VARVE_BASE_TEXT_H
#define VARVE_BASE_TEXT_H

/* Text that came from elsewhere, made fit to be shown. */

#include <stddef.h>

/*
 * Copies at most n bytes, up to a NUL, to to, which has room for n + 1: control characters and what
 * is not UTF-8 become '?'; a character that is cut off at the end too. Always ends with NUL.
 */
void text_clean(char *to, const char *from, size_t n);

#endif
