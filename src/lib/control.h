/* SPDX-License-Identifier: MIT */
#ifndef VARVE_LIB_CONTROL_H
#define VARVE_LIB_CONTROL_H

/*
 * The daemon's control file, as this process maps it: read-only, once, for ever. It keeps its
 * inode, so a later daemon shows up in it.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/un.h>
#include "ring/layout.h"

/* NULL where there is none; set once. */
const struct control_page *control_page(void);

/*
 * Maps it if it is not yet: from VARVE_RUNDIR, or /run/varve, or $XDG_RUNTIME_DIR/varve. Not for
 * event calls. 0; -ENOENT if there is none; -EPERM if it belongs to somebody that we do not trust;
 * another -errno.
 */
int control_map(void);

/* Enable word of index i; NULL if there is no such index or no control file. */
const uint32_t *control_word(uint32_t i);

/* Whether a daemon listens. */
bool control_listens(void);

/* Whether a daemon of this uid is one to obey: root, the run directory's owner, or ourselves. */
bool control_trusts(uid_t uid);

/* The address of its socket for programs. */
const struct sockaddr_un *control_socket(void);

#endif
