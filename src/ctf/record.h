/* SPDX-License-Identifier: MIT */
#ifndef VARVE_CTF_RECORD_H
#define VARVE_CTF_RECORD_H

/* What the bytes of a record's body mean: contexts (u32 vtid), then the payload by layout. */

#include <stdint.h>
#include "wire/wire.h"

#define CTF_CONTEXT_SIZE 4u /* of the contexts in front of a payload */

/*
 * Bytes of the body of an event of this layout that starts at body, of which avail bytes are
 * there. 0 if it does not fit into avail, or if no CTF reader would take it. The layout is the
 * registry's, the bytes are anybody's.
 */
uint32_t ctf_body_len(const struct wire_event *e, const uint8_t *body, uint32_t avail);

#endif
