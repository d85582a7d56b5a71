/* SPDX-License-Identifier: MIT */
#ifndef VARVE_DAEMON_VERBS_H
#define VARVE_DAEMON_VERBS_H

/*
 * What the requests on the control socket do: each verb checks its keys and calls the part of the
 * daemon that it is about. doc/control-protocol.md is the contract.
 */

#include "daemon/control/ctl.h"

/* Obeys one request; the ctl_request_fn of the daemon. daemon is a struct daemon. */
void verbs_request(void *daemon, struct ctl_conn *c, json_t *request);

#endif
