/* SPDX-License-Identifier: MIT */
#ifndef VARVE_WIRE_CLIENT_H
#define VARVE_WIRE_CLIENT_H

/*
 * The program's half of the wire, on plain bytes: it writes HELLO and EVENTS and takes WELCOME and
 * IDS apart. No allocation, no system call, little stack: attaching happens in event calls too.
 */

#include "wire/wire.h"

struct varve_event;

/* Writes HELLO with exe (of any length; cut) into buf, which has WIRE_MESSAGE_MAX bytes. h->head
 * and h->exe_len need not be set. Returns the message's length. */
size_t wire_hello_write(uint8_t *buf, const struct wire_hello *h, const char *exe);

/* Writes the head of EVENTS for n descriptions into buf. Returns the bytes taken. */
size_t wire_events_write(uint8_t *buf, uint32_t n, bool last);

/*
 * Writes the description of e into buf. Returns its length; 0 if e breaks a rule of the wire and
 * cannot be described at all; -ENOSPC if it does not fit. With buf NULL it only measures, and what
 * would not fit into the largest message cannot be described.
 */
ssize_t wire_event_write(const struct varve_event *e, uint8_t *buf, size_t room);

/* Take a received message apart. 0; -EBADMSG if it is not one; -EPROTONOSUPPORT if its version is
 * another. The ids are read with wire_ids_get(). */
int wire_welcome_read(const uint8_t *data, size_t size, struct wire_welcome *ret);
int wire_ids_read(const uint8_t *data, size_t size, struct wire_ids *ret);
uint32_t wire_ids_get(const uint8_t *data, uint32_t i);

#endif
