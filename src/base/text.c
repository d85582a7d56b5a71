/* SPDX-License-Identifier: MIT */
/* Texts: see text.h. */

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include "base/text.h"

/* Length of the valid UTF-8 character at s, of at most n bytes; 0 if there is none. */
static size_t utf8_length(const unsigned char *s, size_t n)
{
	static const uint32_t smallest[] = { 0, 0, 0x80, 0x800, 0x10000 };
	uint32_t c;
	size_t len;

	if (s[0] < 0x80)
		return 1;
	if (s[0] >= 0xc2 && s[0] <= 0xdf)
		len = 2;
	else if ((s[0] & 0xf0) == 0xe0)
		len = 3;
	else if (s[0] >= 0xf0 && s[0] <= 0xf4)
		len = 4;
	else
		return 0;
	if (len > n)
		return 0;
	c = s[0] & (0x7fu >> len);
	for (size_t i = 1; i < len; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3fu);
	}
	return c >= smallest[len] && c <= 0x10ffff && (c < 0xd800 || c > 0xdfff) ? len : 0;
}

void text_clean(char *to, const char *from, size_t n)
{
	const unsigned char *s = (const unsigned char *)from;
	size_t i = 0;

	while (i < n && s[i]) {
		size_t len = utf8_length(s + i, n - i);

		if (len == 0 || s[i] < 0x20 || s[i] == 0x7f) {
			to[i++] = '?';
			continue;
		}
		for (; len > 0; len--, i++)
			to[i] = from[i];
	}
	to[i] = '\0';
}

char *text_format(const char *fmt, ...)
{
	char *text;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	return n < 0 ? NULL : text;
}
