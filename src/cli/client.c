/* SPDX-License-Identifier: MIT */
/* The connection to the daemon: see client.h. */

#include "cli/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>
#include "cli/cli.h"

#define ANSWER_TIMEOUT_S 30
#define ANSWER_MAX	 (256u << 20)

static bool has_daemon(const char *dir)
{
	char path[4096];

	return (size_t)snprintf(path, sizeof(path), "%s/ctl.sock", dir) < sizeof(path) &&
	       access(path, F_OK) == 0;
}

char *client_rundir(void)
{
	const char *set = getenv("VARVE_RUNDIR"), *user = getenv("XDG_RUNTIME_DIR");
	char *own;

	if (set && *set)
		return strdup(set);
	if (has_daemon("/run/varve") || !user || asprintf(&own, "%s/varve", user) < 0)
		return strdup("/run/varve");
	if (has_daemon(own))
		return own;
	free(own);
	return strdup("/run/varve");
}

static int tell_no_daemon(const char *dir, int err)
{
	if (err == EACCES || err == EPERM)
		return cli_fail(
			"no permission for %s/ctl.sock: it takes root, the user of varved, or "
			"the group 'varve'",
			dir);
	if (err == ENOENT || err == ECONNREFUSED || err == ENOTDIR)
		return cli_fail("no daemon in %s (start 'varved', or name another run directory "
				"with VARVE_RUNDIR)",
			dir);
	return cli_fail("%s/ctl.sock: %s", dir, strerror(err));
}

int client_open(struct client *c, const char *dir)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct timeval timeout = { .tv_sec = ANSWER_TIMEOUT_S };
	int r;

	*c = (struct client){ .fd = -1, .dir = dir ? strdup(dir) : client_rundir() };
	if (!c->dir)
		return cli_fail("out of memory");
	if ((size_t)snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/ctl.sock", c->dir) >=
		sizeof(addr.sun_path)) {
		r = cli_fail("run directory '%s': a path of a socket has at most %zu bytes", c->dir,
			sizeof(addr.sun_path) - 1);
		client_close(c);
		return r;
	}
	c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&addr, sizeof(addr)) != 0) {
		r = tell_no_daemon(c->dir, errno);
		client_close(c);
		return r;
	}
	setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	setsockopt(c->fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
	return 0;
}

void client_close(struct client *c)
{
	if (c->fd >= 0)
		close(c->fd);
	free(c->dir);
	free(c->data);
	*c = (struct client){ .fd = -1 };
}

/* A daemon that turned us away has closed already: then its line is there to be read. */
static void send_line(struct client *c, const char *text)
{
	size_t len = strlen(text), pos = 0;

	while (pos < len) {
		ssize_t n = send(c->fd, text + pos, len - pos, MSG_NOSIGNAL);

		if (n < 0 && (errno != EINTR || cli_interrupted()))
			return;
		pos += n > 0 ? (size_t)n : 0;
	}
}

/* Receives more. As recv(); -EMSGSIZE and -ENOMEM beyond it. */
static ssize_t receive(struct client *c)
{
	ssize_t n;

	if (c->room - c->have < 4096) {
		size_t room = c->room ? c->room * 2 : 65536;
		char *data = room <= ANSWER_MAX ? realloc(c->data, room) : NULL;

		if (!data)
			return room <= ANSWER_MAX ? -ENOMEM : -EMSGSIZE;
		c->data = data;
		c->room = room;
	}
	do {
		n = recv(c->fd, c->data + c->have, c->room - c->have, 0);
	} while (n < 0 && errno == EINTR && !cli_interrupted());
	if (n < 0)
		return -errno;
	c->have += (size_t)n;
	return n;
}

static void drop(struct client *c, size_t n)
{
	c->have -= n;
	memmove(c->data, c->data + n, c->have);
}

/* The next line as JSON, or NULL when it has been told why not. */
static json_t *receive_answer(struct client *c)
{
	json_t *answer;
	size_t len, seen = 0;
	char *end;
	ssize_t n;

	while (!(end = c->have > seen ? memchr(c->data + seen, '\n', c->have - seen) : NULL)) {
		seen = c->have;
		n = receive(c);
		if (n > 0)
			continue;
		if (n == 0)
			cli_fail("the daemon in %s closed the connection", c->dir);
		else if (n == -EAGAIN)
			cli_fail("the daemon in %s does not answer for %d s", c->dir,
				ANSWER_TIMEOUT_S);
		else if (n != -EINTR)
			cli_fail("the daemon in %s: %s", c->dir, strerror((int)-n));
		return NULL;
	}
	len = (size_t)(end - c->data);
	answer = json_loadb(c->data, len, 0, NULL);
	drop(c, len + 1);
	if (!json_is_object(answer)) {
		cli_fail("the daemon in %s talks rubbish", c->dir);
		json_decref(answer);
		return NULL;
	}
	return answer;
}

int client_ask(struct client *c, json_t *request, json_t **ret_answer)
{
	char *text = json_dumps(request, JSON_COMPACT);
	const char *error;
	json_t *answer;
	int code;

	json_decref(request);
	if (!text)
		return cli_fail("the request is no valid UTF-8 text");
	send_line(c, text);
	send_line(c, "\n");
	free(text);
	answer = receive_answer(c);
	if (!answer)
		return cli_interrupted() ? cli_die_of_signal() : CLI_FAILED;
	if (!json_is_true(json_object_get(answer, "ok"))) {
		error = json_string_value(json_object_get(answer, "error"));
		code = (int)json_integer_value(json_object_get(answer, "exit"));
		cli_fail("%s", error ? error : "the daemon failed without a word");
		json_decref(answer);
		return code == CLI_USAGE ? CLI_USAGE : CLI_FAILED;
	}
	if (ret_answer)
		*ret_answer = answer;
	else
		json_decref(answer);
	return 0;
}

ssize_t client_read(struct client *c, void *buf, size_t size)
{
	size_t n = c->have < size ? c->have : size;

	if (n == 0)
		return recv(c->fd, buf, size, 0);
	memcpy(buf, c->data, n);
	drop(c, n);
	return (ssize_t)n;
}

int client_ask_once(const char *dir, json_t *request, json_t **ret_answer)
{
	struct client c;
	int r = client_open(&c, dir);

	if (r != 0) {
		json_decref(request);
		return r;
	}
	r = client_ask(&c, request, ret_answer);
	client_close(&c);
	return r;
}

json_t *client_texts(const char *const *texts, size_t n)
{
	json_t *list;

	if (n == 0)
		return NULL;
	list = json_array();
	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, json_string(texts[i]));
	return list;
}

json_t *client_start_request(const char *name, uint64_t budget, uint64_t window_ns,
	const char *mode, const struct cli_patterns *patterns)
{
	/* clang-format off */
	return json_pack("{s:s, s:s, s:o*, s:o*, s:s*, s:o*}",
		"verb", "start",
		"session", name,
		"budget", budget ? json_integer((json_int_t)budget) : NULL,
		"window_ns", window_ns ? json_integer((json_int_t)window_ns) : NULL,
		"mode", mode,
		"patterns", client_texts(patterns->texts, patterns->n));
	/* clang-format on */
}
