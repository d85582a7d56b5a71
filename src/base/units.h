/* SPDX-License-Identifier: MIT */
#ifndef VARVE_BASE_UNITS_H
#define VARVE_BASE_UNITS_H

/*
 * Sizes and times as people write them: 64M, 30s; and back, short and aligned for tables.
 *
 * A size is a whole number of bytes, or of K, M, G (powers of 1024; "KiB" and "KB" mean the same).
 * A time is a whole number of s, or of ns, us, ms, s, m, h, d. Nothing else is accepted: no sign,
 * no blanks, no fraction.
 */

#include <stddef.h>
#include <stdint.h>

#define UNITS_SIZE_HINT "a size is a number and K, M or G, as in 64M"
#define UNITS_TIME_HINT "a time is a number and ms, s, m or h, as in 30s"

/* 0 and *ret_bytes; -EINVAL if the text is no size; -ERANGE if it does not fit 63 bits. */
int units_size_parse(const char *text, uint64_t *ret_bytes);

/* The same for a time, in ns. */
int units_time_parse(const char *text, uint64_t *ret_ns);

#define UNITS_FORMAT_MAX 24

/* Up to four digits and a unit: "812", "4K", "31.9M". Returns buf. */
const char *units_size_format(char buf[UNITS_FORMAT_MAX], uint64_t bytes);

/* "850ms", "30.0s", "12m05s", "3h07m". Returns buf. */
const char *units_time_format(char buf[UNITS_FORMAT_MAX], uint64_t ns);

/* A count with thin groups of three: "1 234 567". Returns buf. */
#define UNITS_COUNT_MAX 32
const char *units_count_format(char buf[UNITS_COUNT_MAX], uint64_t n);

#endif
