/* SPDX-License-Identifier: MIT */
#ifndef VARVE_CLI_CLIENT_H
#define VARVE_CLI_CLIENT_H

/*
 * The daemon, as the command line sees it: one connection to ctl.sock, a request and an answer
 * (doc/control-protocol.md). Every failure has been told in one line when a function returns it as
 * an exit code.
 */

#include <jansson.h>
#include <stdint.h>
#include <sys/types.h>

struct client {
	int fd;
	char *dir;  /* owned: run directory, for messages */
	char *data; /* owned: bytes that came and were not yet asked for */
	size_t have, room;
};

/* The run directory in force: VARVE_RUNDIR, else /run/varve or $XDG_RUNTIME_DIR/varve, where a
 * daemon is. New string, or NULL without memory. */
char *client_rundir(void);

/* Connects to the daemon of dir (NULL: the one in force). 0, or an exit code; then nothing is open. */
int client_open(struct client *c, const char *dir);
void client_close(struct client *c);

/*
 * Sends the request (stolen) and takes the answer. 0 and *ret_answer (new, owned by the caller; may
 * be NULL if not wanted), or an exit code.
 */
int client_ask(struct client *c, json_t *request, json_t **ret_answer);

/* What comes behind the answer: as read(). */
ssize_t client_read(struct client *c, void *buf, size_t size);

/* client_open(), client_ask() and client_close(). */
int client_ask_once(const char *dir, json_t *request, json_t **ret_answer);

/* The request that starts a session; 0, NULL and no patterns mean the daemon's defaults. */
struct cli_patterns;
json_t *client_start_request(const char *name, uint64_t budget, uint64_t window_ns,
	const char *mode, const struct cli_patterns *patterns);

/* The texts as a JSON array; NULL, which "s:o*" leaves out, if there are none. */
json_t *client_texts(const char *const *texts, size_t n);

#endif
