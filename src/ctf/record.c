/* SPDX-License-Identifier: MIT */

/* Walks a byte-packed body by its layout: see record.h. */

#include "ctf/record.h"

#include <string.h>

#include "varve/abi.h"

/* Bytes of a type of fixed size; 0 for others. */
static uint32_t type_size(uint8_t type)
{
	static const uint8_t sizes[] = {
		[VARVE_T_U8] = 1,
		[VARVE_T_U16] = 2,
		[VARVE_T_U32] = 4,
		[VARVE_T_U64] = 8,
		[VARVE_T_I8] = 1,
		[VARVE_T_I16] = 2,
		[VARVE_T_I32] = 4,
		[VARVE_T_I64] = 8,
		[VARVE_T_X8] = 1,
		[VARVE_T_X16] = 2,
		[VARVE_T_X32] = 4,
		[VARVE_T_X64] = 8,
		[VARVE_T_BOOL] = 1,
		[VARVE_T_F32] = 4,
		[VARVE_T_F64] = 8,
	};

	return type < sizeof(sizes) ? sizes[type] : 0;
}

/* Bytes of one field at p; UINT64_MAX if it does not end within avail. */
static uint64_t field_len(const struct wire_field *f, const uint8_t *p, uint32_t avail)
{
	const uint8_t *end;
	uint16_t n;

	switch (f->type) {
	case VARVE_T_STR:
		end = memchr(p, 0, avail);
		return end ? (uint64_t)(end - p) + 1 : UINT64_MAX;
	case VARVE_T_ARRAY:
		return (uint64_t)f->length * type_size(f->element);
	case VARVE_T_TEXT:
		return f->length;
	case VARVE_T_SEQ:
	case VARVE_T_TEXTSEQ:
		if (avail < sizeof(n))
			return UINT64_MAX;
		memcpy(&n, p, sizeof(n));
		return sizeof(n) +
		       (f->type == VARVE_T_SEQ ? (uint64_t)n * type_size(f->element) : n);
	case VARVE_T_ENUM:
		return type_size(f->element);
	default:
		return type_size(f->type);
	}
}

uint32_t ctf_body_len(const struct wire_event *e, const uint8_t *body, uint32_t avail)
{
	uint32_t at = CTF_CONTEXT_SIZE;

	if (avail < at)
		return 0;
	for (uint32_t i = 0; i < e->n_fields; i++) {
		uint64_t n = field_len(&e->fields[i], body + at, avail - at);

		if (n > avail - at)
			return 0;
		at += (uint32_t)n;
	}
	return at;
}
