/* SPDX-License-Identifier: MIT */
/* varve view: shows a trace with babeltrace2. */

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "cli/cli.h"

/* Whether PATH/metadata or PATH/ctf/metadata is the metadata of a CTF 1.8 trace. 0, or errno. */
static int metadata_check(const char *path, const char *below)
{
	/* As text; or in packets, which start with 0x75d11d57 in either byte order. */
	static const char text[] = "/* CTF 1.8", little[] = "\x57\x1d\xd1\x75",
			  big[] = "\x75\xd1\x1d\x57";
	char file[4096], head[sizeof(text) - 1] = "";
	FILE *f;

	if ((size_t)snprintf(file, sizeof(file), "%s/%s", path, below) >= sizeof(file))
		return ENAMETOOLONG;
	f = fopen(file, "re");
	if (!f)
		return errno;
	if (fread(head, 1, sizeof(head), f) != sizeof(head))
		head[0] = '\0';
	fclose(f);
	if (memcmp(head, text, sizeof(head)) == 0 || memcmp(head, little, 4) == 0 ||
		memcmp(head, big, 4) == 0)
		return 0;
	return EINVAL;
}

static int trace_check(const char *path)
{
	int r = metadata_check(path, "ctf/metadata"), err = r;

	if (r != 0)
		r = metadata_check(path, "metadata");
	if (r == 0)
		return 0;
	if (access(path, F_OK) != 0)
		return cli_fail("trace '%s': %s", path, strerror(errno));
	if (r == EACCES || err == EACCES)
		return cli_fail("trace '%s': cannot read its metadata: %s", path, strerror(EACCES));
	return cli_fail("'%s' is no trace: there is no ctf/metadata of CTF 1.8 in it", path);
}

static int view(const struct cli_verb *v, int argc, char **argv)
{
	const struct cli_option options[] = { { NULL } };
	char **words, **command;
	int n, r;

	r = cli_parse(v, options, false, argc, argv, &words, &n);
	if (r == CLI_GO_ON)
		r = cli_words_check(v, words, n, 1, n, "TRACE");
	if (r != CLI_GO_ON)
		return r;
	r = trace_check(words[0]);
	if (r != 0)
		return r;
	command = calloc((size_t)n + 2, sizeof(*command));
	if (!command)
		return cli_fail("out of memory");
	command[0] = (char *)"babeltrace2";
	memcpy(command + 1, words, (size_t)n * sizeof(*words));
	execvp(command[0], command);
	r = errno;
	free(command);
	if (r == ENOENT)
		return cli_fail("there is no babeltrace2 (on Debian: apt install babeltrace2)");
	return cli_fail("babeltrace2: %s", strerror(r));
}

const struct cli_verb cli_view = {
	.name = "view",
	.synopsis = "TRACE [-- BABELTRACE2-ARG...]",
	.summary = "show a trace with babeltrace2",
	.help = "Shows the events of TRACE, a directory that 'varve snapshot' or 'varve record' wrote, in the\n"
		"order of time. What follows -- goes to babeltrace2:\n\n"
		"  varve view trace -- --clock-gmt --names payload,context\n",
	.run = view,
};
