/* SPDX-License-Identifier: MIT */
#ifndef VARVE_WIRE_WIRE_H
#define VARVE_WIRE_WIRE_H

/*
 * What a program and the daemon say to each other on app.sock (SOCK_SEQPACKET), once:
 *
 *   program                                daemon
 *   HELLO    who, how, which pool   ---->
 *   EVENTS   descriptions, 0 or more
 *            messages, the last says so ->
 *                                   <----  WELCOME  status, registry epoch, the pool's fd
 *                                   <----  IDS      one id per description, in order, 0 or more
 *   (closes)
 *
 * Numbers are in the byte order of the machine: both ends are on it. A message is at most
 * WIRE_MESSAGE_MAX bytes. All messages start with struct wire_head. A reader takes a message apart
 * on plain bytes, checks everything, and refuses the whole on the first thing wrong.
 *
 * HELLO with cookie 0 asks for a new pool. With the cookie of the process's pool, EVENTS are added
 * (a library was loaded) and WELCOME carries no fd. With n_events 0 and the epoch in force a child
 * after fork takes over its parent's ids.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "ring/layout.h"

#define WIRE_MAGIC	 0x65767256u /* "Vrve" */
#define WIRE_VERSION	 1u
#define WIRE_MESSAGE_MAX 32768u
#define WIRE_EVENTS_MAX	 65536u /* per process */
#define WIRE_NAME_MAX	 127u	/* provider, event, field, label: bytes */
#define WIRE_FIELDS_MAX	 64u
#define WIRE_LABELS_MAX	 256u
#define WIRE_EXE_MAX	 512u

enum wire_type { WIRE_HELLO = 1, WIRE_EVENTS, WIRE_WELCOME, WIRE_IDS };

struct wire_head {
	uint32_t magic;
	uint16_t version;
	uint16_t type; /* enum wire_type */
};

struct wire_hello {
	struct wire_head head;
	uint64_t cookie; /* of the pool that the process has, or 0 */
	uint64_t epoch;	 /* of the registry that it has ids of, or 0 */
	uint64_t room;	 /* address space it can spare (RLIMIT_AS), UINT64_MAX for any */
	int32_t pid;	 /* as the process sees itself */
	int32_t ppid;
	uint32_t mode;	   /* enum ring_mode */
	uint32_t clock;	   /* enum trace_clock that it will use */
	uint32_t n_events; /* descriptions to follow */
	uint32_t exe_len;  /* bytes that follow, at most WIRE_EXE_MAX */
	char name[16];	   /* as in /proc/PID/comm; zero-padded */
			   /* exe follows */
};

/*
 * EVENTS: struct wire_events, then n descriptions, byte-packed:
 *   u8 level, u8 n_fields, name provider, name event, then per field:
 *   u8 type (enum varve_type), u8 element (enum varve_type of arrays and enumerations, else 0),
 *   u32 length (of fixed arrays, else 0), name field,
 *   enumerations: u16 n_labels, then per label: u64 low, u64 high, name label
 * where a name is u8 length and bytes, no NUL; letters, digits and underscore for provider, event
 * and field; printable bytes for labels.
 */
struct wire_events {
	struct wire_head head;
	uint32_t n;
	uint32_t last; /* 1 in the last message */
};

enum wire_status {
	WIRE_OK,
	WIRE_BAD_VERSION, /* of the protocol */
	WIRE_BAD_MESSAGE,
	WIRE_LIMIT,	 /* this uid has all that it may have */
	WIRE_NO_MEMORY,	 /* the budget, or the system's memory, has nothing left */
	WIRE_BAD_COOKIE, /* no such pool of this process */
	WIRE_STALE,	 /* the epoch is not in force: send all descriptions */
};

struct wire_welcome {
	struct wire_head head;
	uint32_t status; /* enum wire_status */
	uint32_t clock;	 /* enum trace_clock in force */
	uint64_t epoch;
	uint64_t cookie;
	uint64_t span; /* bytes to map */
	uint32_t n_ids;
	uint32_t reserved;
};

struct wire_ids {
	struct wire_head head;
	uint32_t n;
	uint32_t first; /* index of the first of them among the descriptions sent */
	/* u32 id[n] follow: index of the enable word, and the id in the records; 0: refused */
};

/* --- event layouts, as both the wire and the registry hold them ---------------------------------- */

struct wire_label {
	uint64_t low, high;
	const char *name;
};

struct wire_field {
	uint8_t type, element;
	uint32_t length;
	const char *name;
	uint32_t n_labels;
	struct wire_label *labels;
};

/* One description. Parsed ones are one allocation: free() it. */
struct wire_event {
	uint8_t level;
	uint32_t n_fields;
	const char *provider, *name;
	struct wire_field *fields;
};

/*
 * Takes the description at *pos of a message apart. 0 and *ret_event (new, owned by the caller),
 * *pos moved behind it; -EBADMSG if it is not one; -ENOMEM.
 */
int wire_event_parse(const uint8_t *data, size_t size, size_t *pos, struct wire_event **ret_event);

/* Checks a whole message's size, magic, version and type. 0, -EBADMSG or -EPROTONOSUPPORT. */
int wire_head_check(const void *data, size_t size, enum wire_type *ret_type);

#endif
