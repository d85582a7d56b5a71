/* SPDX-License-Identifier: MIT */
#ifndef VARVE_CLI_TABLE_H
#define VARVE_CLI_TABLE_H

/*
 * An aligned table: all cells first, then the widths. A column is "<NAME" (left) or ">NAME" (right).
 * Cells come row by row; what could steer a terminal is shown as '?'.
 */

#include <stdio.h>

struct table;

struct table *table_new(const char *const *columns); /* static texts, NULL ends; never NULL */
void table_cell(struct table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Prints and frees. Without a row it prints `empty`, if not NULL. */
void table_print(struct table *t, FILE *to, const char *empty);

#endif
