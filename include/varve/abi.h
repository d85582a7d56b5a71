/* SPDX-License-Identifier: MIT */
#ifndef VARVE_ABI_H
#define VARVE_ABI_H

/*
 * What instrumented code and libvarve agree on in memory. Include <varve/varve.h>; this header is
 * for it. Structures grow at the end only, and each tells its size.
 */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define VARVE_ABI_VERSION 1

/* Bytes of payload that a record may have; strings and counted arrays are cut to fit. */
#define VARVE_RECORD_MAX 4000
/* Room that libvarve wants in front of a serialised payload (for contexts), and behind it. */
#define VARVE_HEADROOM 32
#define VARVE_TAILROOM 8

/* clang-format off */
/* Levels, the syslog ones first, as in LTTng and CTF. */
enum varve_level {
	VARVE_EMERG, VARVE_ALERT, VARVE_CRIT, VARVE_ERR, VARVE_WARNING, VARVE_NOTICE, VARVE_INFO,
	VARVE_DEBUG_SYSTEM, VARVE_DEBUG_PROGRAM, VARVE_DEBUG_PROCESS, VARVE_DEBUG_MODULE,
	VARVE_DEBUG_UNIT, VARVE_DEBUG_FUNCTION, VARVE_DEBUG_LINE, VARVE_DEBUG
};

/* Types of a field. The numbers are on the wire: never reuse one. All values lie byte-packed, in
 * the machine's byte order. */
enum varve_type {
	VARVE_T_U8 = 1, VARVE_T_U16, VARVE_T_U32, VARVE_T_U64,
	VARVE_T_I8, VARVE_T_I16, VARVE_T_I32, VARVE_T_I64,
	VARVE_T_X8, VARVE_T_X16, VARVE_T_X32, VARVE_T_X64, /* unsigned, shown as hex */
	VARVE_T_BOOL,					   /* u8, 0 or 1 */
	VARVE_T_F32, VARVE_T_F64,
	VARVE_T_STR = 32, /* bytes, then NUL */
	VARVE_T_ARRAY,	  /* length elements of the element type (an integer or float type) */
	VARVE_T_SEQ,	  /* u16 count, then that many elements */
	VARVE_T_TEXT,	  /* length bytes of text, padded with NUL */
	VARVE_T_TEXTSEQ,  /* u16 count, then that many bytes of text */
	VARVE_T_ENUM	  /* a value of the element type (an integer type), with named ranges */
};
/* clang-format on */

struct varve_label {
	const char *name;
	uint64_t low, high; /* both included; of signed types sign-extended */
};

struct varve_field {
	const char *name;
	uint8_t type, element; /* enum varve_type */
	uint16_t n_labels;
	uint32_t length;
	const struct varve_label *labels;
};

/* One event of one compilation unit. Static; libvarve fills in word and id. */
struct varve_event {
	uint32_t size; /* sizeof(struct varve_event) */
	uint8_t level; /* enum varve_level */
	uint8_t n_fields;
	uint16_t reserved;
	const char *provider, *name;
	const struct varve_field *fields;
	const uint32_t *word; /* its enable word; never NULL; read it with a relaxed atomic load */
	uint32_t id;	      /* 0 while it has none */
	uint32_t reserved2;
};

/* The events of one loaded object: of the program, or of a library. Static, one per unit; units of
 * the same object give the same range, and libvarve counts it once. */
struct varve_object {
	uint32_t size; /* sizeof(struct varve_object) */
	uint32_t abi;  /* VARVE_ABI_VERSION */
	struct varve_event **begin, **end;
	struct varve_object *next; /* libvarve's */
	void *reserved[2];
};

/* libvarve's own, also in code that hides its symbols. */
#define VARVE_API __attribute__((visibility("default")))

/* Called by constructors and destructors that <varve/varve.h> makes. */
VARVE_API void varve_object_register(struct varve_object *o);
VARVE_API void varve_object_unregister(struct varve_object *o);

/*
 * Records an event whose payload of len bytes (at most VARVE_RECORD_MAX) lies at payload, with
 * VARVE_HEADROOM writable bytes in front and VARVE_TAILROOM readable ones behind. Any thread, any
 * signal handler; errno is kept; never blocks, never fails: what cannot be recorded is counted.
 */
VARVE_API void varve_event_emit(const struct varve_event *e, void *payload, size_t len);

#ifdef __cplusplus
}
#endif
#endif
