/* SPDX-License-Identifier: MIT */
/* Whole messages: sizes, magic, version, type; HELLO. Plain bytes in, checked copies out. */

#include <errno.h>
#include <string.h>

#include "wire/event.h"

static size_t message_size_min(enum wire_type type)
{
	switch (type) {
	case WIRE_HELLO:
		return sizeof(struct wire_hello);
	case WIRE_EVENTS:
		return sizeof(struct wire_events);
	case WIRE_WELCOME:
		return sizeof(struct wire_welcome);
	case WIRE_IDS:
		return sizeof(struct wire_ids);
	}
	return SIZE_MAX;
}

int wire_head_check(const void *data, size_t size, enum wire_type *ret_type)
{
	struct wire_head head;

	if (size < sizeof(head) || size > WIRE_MESSAGE_MAX)
		return -EBADMSG;
	memcpy(&head, data, sizeof(head));
	if (head.magic != WIRE_MAGIC)
		return -EBADMSG;
	if (head.version != WIRE_VERSION)
		return -EPROTONOSUPPORT;
	if (size < message_size_min(head.type))
		return -EBADMSG;
	*ret_type = head.type;
	return 0;
}

int wire_hello_parse(const void *data, size_t size, struct wire_hello *ret, const char **ret_exe)
{
	struct wire_hello h;

	if (size < sizeof(h))
		return -EBADMSG;
	memcpy(&h, data, sizeof(h));
	if (h.exe_len > WIRE_EXE_MAX || h.exe_len != size - sizeof(h) ||
		h.n_events > WIRE_EVENTS_MAX)
		return -EBADMSG;
	h.name[sizeof(h.name) - 1] = '\0';
	*ret = h;
	*ret_exe = (const char *)data + sizeof(h);
	return 0;
}
