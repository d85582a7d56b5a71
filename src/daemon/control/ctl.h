/* SPDX-License-Identifier: MIT */
#ifndef VARVE_DAEMON_CTL_H
#define VARVE_DAEMON_CTL_H

/*
 * The control socket: who may command the daemon, and lines of JSON in and out
 * (doc/control-protocol.md). What the verbs do is not here: each request goes to one function,
 * verbs_request() in the daemon, something simpler in a test.
 *
 *   listener --accept--> may_control? --no--> one failure line, close
 *                             |yes
 *                             v
 *        READING: collect a line of at most CTL_LINE_MAX bytes --> request function
 *            ^                                                          | ctl_answer, ctl_fail
 *            |                                                          v
 *            +------------- all has gone out -------------- WRITING: nothing is read meanwhile
 *
 * So a peer can make the daemon hold one line and one answer per connection, and CTL_UID_CONNS
 * connections per uid. All runs on the loop's thread.
 */

#include <jansson.h>
#include <uv.h>

#define CTL_LINE_MAX  65536u
#define CTL_UID_CONNS 16u
#define CTL_GROUP     "varve"

struct ctl;
struct ctl_conn;

/*
 * Obeys one request, a JSON object (borrowed): calls exactly one of ctl_answer(), ctl_fail() and
 * ctl_hand_over(c) before it returns.
 */
typedef void ctl_request_fn(void *ctx, struct ctl_conn *c, json_t *request);

/* Serves the listening socket, which stays the caller's, on the loop. 0, or -errno. */
int ctl_new(struct ctl **ret, uv_loop_t *loop, int listen_fd, ctl_request_fn *request, void *ctx);

/* Closes all connections. The loop must run once more for libuv to let go of the memory. NULL is
 * fine. */
void ctl_free(struct ctl *ctl);

/* Sends {"ok": true} with the keys of answer (stolen; may be NULL: none). */
void ctl_answer(struct ctl_conn *c, json_t *answer);

/* Sends a failure: one line for people; what is cut or unprintable in it is made harmless. */
void ctl_fail(struct ctl_conn *c, int exit_code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * Sends answer (stolen) as ctl_answer() does and gives the connection away: the fd (non-blocking,
 * close-on-exec) is the caller's from here on. -errno if the answer could not go out at once; then
 * the connection is closed, and nothing is the caller's.
 */
int ctl_hand_over(struct ctl_conn *c, json_t *answer);

#endif
