/* SPDX-License-Identifier: MIT */
/* Tables for people: see table.h. */

#include "cli/table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct table {
	const char *const *columns;
	size_t n_columns, n_cells, room;
	char **cells; /* owned, row by row */
};

static void *must(void *p)
{
	if (!p)
		abort(); /* a command line tool without memory for its output */
	return p;
}

struct table *table_new(const char *const *columns)
{
	struct table *t = must(calloc(1, sizeof(*t)));

	t->columns = columns;
	while (columns[t->n_columns])
		t->n_columns++;
	return t;
}

/* Control characters of ASCII, and of Latin-1 as UTF-8 writes them (c2 80 to c2 9f). */
static void make_harmless(char *s)
{
	for (unsigned char *p = (unsigned char *)s; *p; p++) {
		if (*p < 0x20 || *p == 0x7f)
			*p = '?';
		else if (p[0] == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0)
			p[0] = p[1] = '?';
	}
}

void table_cell(struct table *t, const char *fmt, ...)
{
	va_list ap;
	char *cell;
	int r;

	va_start(ap, fmt);
	r = vasprintf(&cell, fmt, ap);
	va_end(ap);
	if (r < 0)
		abort();
	make_harmless(cell);
	if (t->n_cells == t->room) {
		t->room = t->room ? 2 * t->room : 64;
		t->cells = must(realloc(t->cells, t->room * sizeof(*t->cells)));
	}
	t->cells[t->n_cells++] = cell;
}

/* Characters, not bytes. */
static int width(const char *s)
{
	int n = 0;

	for (; *s; s++)
		n += (*s & 0xc0) != 0x80;
	return n;
}

static void print_row(const struct table *t, const int *widths, char *const *cells, FILE *to)
{
	for (size_t i = 0; i < t->n_columns; i++) {
		const char *text = cells ? cells[i] : t->columns[i] + 1;
		int pad = widths[i] - width(text);

		if (t->columns[i][0] == '>')
			fprintf(to, "%*s%s", pad, "", text);
		else if (i + 1 < t->n_columns)
			fprintf(to, "%s%*s", text, pad, "");
		else
			fputs(text, to);
		if (i + 1 < t->n_columns)
			fputs("  ", to);
	}
	fputc('\n', to);
}

void table_print(struct table *t, FILE *to, const char *empty)
{
	int *widths = must(calloc(t->n_columns + 1, sizeof(*widths)));
	int bold = isatty(fileno(to));

	for (size_t i = 0; i < t->n_columns; i++)
		widths[i] = width(t->columns[i] + 1);
	for (size_t i = 0, column = 0; i < t->n_cells; i++) {
		if (width(t->cells[i]) > widths[column])
			widths[column] = width(t->cells[i]);
		column = column + 1 < t->n_columns ? column + 1 : 0;
	}
	if (t->n_cells) {
		fputs(bold ? "\033[1m" : "", to);
		print_row(t, widths, NULL, to);
		fputs(bold ? "\033[0m" : "", to);
	} else if (empty) {
		fprintf(to, "%s\n", empty);
	}
	for (size_t i = 0; i < t->n_cells; i += t->n_columns)
		print_row(t, widths, t->cells + i, to);
	for (size_t i = 0; i < t->n_cells; i++)
		free(t->cells[i]);
	free(t->cells);
	free(widths);
	free(t);
}
