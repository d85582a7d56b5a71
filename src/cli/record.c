/* SPDX-License-Identifier: MIT */
/*
 * varve record: one command, recorded by a daemon of its own.
 *
 *   check the output -> private daemon -> session -> CMD runs -> snapshot -> daemon ends
 *
 * Before CMD runs a failure ends the whole with nothing left behind. After it CMD's status is the
 * result, and the snapshot is taken however CMD ended.
 */

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "base/units.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/output.h"
#include "cli/private.h"
#include "cli/source.h"

#define SESSION "record"

struct recording {
	char **command;
	const char *path;   /* of the output */
	char *default_path; /* owned */
	const char *mode;
	uint64_t budget, window;
	struct cli_patterns patterns;
	char *preload; /* owned */
	struct private_daemon daemon;
};

/* --- the command -------------------------------------------------------------------------------- */

static volatile sig_atomic_t command_pid;

/*
 * ^C and ^\ reach the command from the terminal by themselves, as it is in our process group; what
 * somebody sent to us alone is passed on.
 */
static void pass_on(int sig, siginfo_t *info, void *context)
{
	int saved = errno;

	if (command_pid > 0 && info->si_code <= 0)
		kill((pid_t)command_pid, sig);
	errno = saved;
}

static const int passed_on[] = { SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2 };

#define N_PASSED_ON (sizeof(passed_on) / sizeof(passed_on[0]))

static void signals_to_command(sigset_t *ret_before)
{
	struct sigaction sa = { .sa_sigaction = pass_on, .sa_flags = SA_SIGINFO | SA_RESTART };
	sigset_t block;

	/* Blocked until the command is there to take them. */
	sigemptyset(&block);
	for (size_t i = 0; i < N_PASSED_ON; i++)
		sigaddset(&block, passed_on[i]);
	sigprocmask(SIG_BLOCK, &block, ret_before);
	for (size_t i = 0; i < N_PASSED_ON; i++) {
		struct sigaction before;

		/* What nohup set to be ignored stays so. */
		if (sigaction(passed_on[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
			sigaction(passed_on[i], &sa, NULL);
	}
}

/* The child. Handlers fall back by themselves in exec, the mask does not. */
static void become_command(const struct recording *r, const sigset_t *mask, int error_fd)
{
	int err = source_environment(r->daemon.dir, r->preload) == 0 ? 0 : ENOMEM;

	for (size_t i = 0; i < N_PASSED_ON; i++) {
		struct sigaction now;

		if (sigaction(passed_on[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
			signal(passed_on[i], SIG_DFL);
	}
	sigprocmask(SIG_SETMASK, mask, NULL);
	if (!err)
		err = source_exec(r->command);
	(void)!write(error_fd, &err, sizeof(err));
	_exit(CLI_NOT_FOUND);
}

/* Runs the command to its end. 0 and *ret_status; or errno, as it could not be executed. */
static int run_command(struct recording *r, int *ret_status)
{
	int pipe_fd[2], err = 0, status;
	sigset_t before;
	pid_t pid;

	if (pipe2(pipe_fd, O_CLOEXEC) != 0)
		return errno;
	signals_to_command(&before);
	pid = fork();
	if (pid == 0)
		become_command(r, &before, pipe_fd[1]);
	if (pid < 0)
		err = errno;
	command_pid = pid;
	sigprocmask(SIG_SETMASK, &before, NULL);
	close(pipe_fd[1]);
	/* The end without a word: exec has closed the pipe. */
	if (pid > 0 && read(pipe_fd[0], &err, sizeof(err)) != sizeof(err))
		err = 0;
	close(pipe_fd[0]);
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	command_pid = 0;
	if (pid > 0 && !err)
		*ret_status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
	return err;
}

/* --- before and after --------------------------------------------------------------------------- */

static void tell(const struct output *o, const json_t *totals)
{
	const json_t *events = json_object_get(totals, "events");
	char count[UNITS_COUNT_MAX];

	if (json_is_integer(events) && json_integer_value(events) == 0)
		fprintf(stderr,
			"varve: recorded nothing in %s: nothing that ran has events of "
			"varve (--preload libc gives it some), or no -e matches\n",
			o->shown);
	else if (json_is_integer(events))
		fprintf(stderr, "varve: recorded %s events: varve view %s\n",
			units_count_format(count, (uint64_t)json_integer_value(events)), o->shown);
	else
		fprintf(stderr, "varve: recorded: varve view %s\n", o->shown);
}

static int take_snapshot(const struct recording *r)
{
	json_t *totals = NULL;
	struct output o;
	struct client c;
	int code = private_check(&r->daemon);

	if (code == 0)
		code = client_open(&c, r->daemon.dir);
	if (code != 0)
		return code;
	code = output_open(&o, r->path);
	if (code == 0)
		code = client_ask(&c,
			json_pack("{s:s, s:s, s:b}", "verb", "snapshot", "session", SESSION,
				"allow_empty", 1),
			NULL);
	if (code == 0)
		code = output_receive(&o, &c, &totals);
	if (code == 0)
		code = output_commit(&o, SESSION, (uint64_t)time(NULL) * 1000000000);
	if (code == 0)
		tell(&o, totals);
	json_decref(totals);
	output_close(&o);
	client_close(&c);
	return code;
}

static int record_command(struct recording *r)
{
	int status = CLI_FAILED, err, code;

	code = output_check(r->path);
	if (code != 0)
		return code;
	cli_catch_signals();
	code = private_start(&r->daemon);
	if (code != 0)
		return cli_interrupted() ? cli_die_of_signal() : code;
	code = client_ask_once(r->daemon.dir,
		client_start_request(SESSION, r->budget, r->window, r->mode, &r->patterns), NULL);
	if (code == 0) {
		err = run_command(r, &status);
		cli_catch_signals();
		code = err ? source_tell(r->command[0], err) : take_snapshot(r);
		if (!err && status != 0)
			code = status;
	}
	private_stop(&r->daemon);
	return cli_interrupted() ? cli_die_of_signal() : code;
}

static char *default_path(const char *command)
{
	char *copy = strdup(command), *path = NULL, when[OUTPUT_TIME_MAX];

	output_time(when, (uint64_t)time(NULL) * 1000000000);
	if (!copy || asprintf(&path, "./varve-%s-%s", basename(copy), when) < 0)
		path = NULL;
	free(copy);
	return path;
}

static int record(const struct cli_verb *v, int argc, char **argv)
{
	struct recording r = { 0 };
	const char *list = NULL;
	const struct cli_option options[] = {
		{ "output", 'o', true, cli_take_text, &r.path },
		{ "budget", 'b', true, cli_take_size, &r.budget },
		{ "window", 'w', true, cli_take_time, &r.window },
		{ "mode", 0, true, cli_take_mode, &r.mode },
		{ "event", 'e', true, cli_take_pattern, &r.patterns },
		{ "preload", 0, true, cli_take_text, &list },
		{ NULL },
	};
	int n = 0, code;

	code = cli_parse(v, options, true, argc, argv, &r.command, &n);
	if (code == CLI_GO_ON)
		code = cli_words_check(v, r.command, n, 1, n, "CMD");
	if (code == CLI_GO_ON)
		code = source_preload(list, &r.preload);
	if (code == 0 && n > 0) {
		if (!r.path)
			r.path = r.default_path = default_path(r.command[0]);
		code = r.path ? record_command(&r) : cli_fail("out of memory");
	}
	free(r.patterns.texts);
	free(r.preload);
	free(r.default_path);
	return code;
}

const struct cli_verb cli_record = {
	.name = "record",
	.synopsis = "[-o OUT] [--preload LIST] [OPTION...] [--] CMD [ARG...]",
	.summary = "run a command and record it, all in one",
	.help = "Runs CMD under a recorder of its own and writes what CMD, and all that it starts, recorded\n"
		"into the directory OUT when CMD ends, also when it crashes. Needs no daemon. Ends with\n"
		"CMD's status, 128+n if signal n killed it, 127 if there is no such command, 126 if it\n"
		"cannot be executed.\n\n"
		"  -o, --output OUT     must not be there, or be empty (./varve-CMD-TIME)\n"
		"      --preload LIST   libraries that make events of an unmodified program's calls,\n"
		"                       separated by commas: libc\n"
		"  -b, --budget SIZE    shared memory for all processes together (32M)\n"
		"  -w, --window TIME    how far back the recording is to reach (60s)\n"
		"  -e, --event PATTERN  events to record, 'provider:event' with * and ?; repeats, the last\n"
		"                       match wins, '!provider:event' leaves out ('*:*')\n"
		"      --mode flight    keep the newest in memory (the only mode of this version)\n",
	.run = record,
};
