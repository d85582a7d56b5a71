/* SPDX-License-Identifier: MIT */
#ifndef VARVE_WIRE_EVENT_H
#define VARVE_WIRE_EVENT_H

/* What the daemon does with event layouts besides parsing them (wire.h). */

#include <stdbool.h>
#include "wire/wire.h"

bool wire_event_equal(const struct wire_event *a, const struct wire_event *b);
uint64_t wire_event_hash(const struct wire_event *e);
/* Bytes that a parsed one takes in memory. */
size_t wire_event_size(const struct wire_event *e);

/* Bytes of one value of an integer, float or bool type; 0 for other types. */
uint32_t wire_type_size(uint8_t type);

/*
 * Takes a whole HELLO apart: *ret is a copy, with a name that ends with NUL; *ret_exe points into
 * data, ret->exe_len bytes. 0 or -EBADMSG.
 */
int wire_hello_parse(const void *data, size_t size, struct wire_hello *ret, const char **ret_exe);

#endif
