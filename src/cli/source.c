/* SPDX-License-Identifier: MIT */
/*
 * The environment of a source: see source.h. varve's own files are looked for relative to the
 * program itself, so an installation may be moved as a whole, then where they were installed.
 */

#include "cli/source.h"

#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "cli/cli.h"

/* Relative to the directory of the program, or absolute. The last ones are those of a build tree. */
static const char *const varved_places[] = { "varved", "../sbin/varved", VARVE_BINDIR "/varved",
	"../daemon/varved" };
static const char *const preload_places[] = { "../" VARVE_LIBDIR_NAME "/varve",
	VARVE_LIBDIR "/varve", "../preload" };

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* The first of the places where mode allows file; a new string, or NULL. */
static char *find_own(const char *const *places, size_t n, const char *file, int mode)
{
	char exe[4096], *path;
	ssize_t len = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	exe[len > 0 ? len : 0] = '\0';
	dirname(exe);
	for (size_t i = 0; i < n; i++) {
		int r = places[i][0] == '/' ? asprintf(&path, "%s%s", places[i], file)
					    : asprintf(&path, "%s/%s%s", exe, places[i], file);

		if (r < 0)
			return NULL;
		if (access(path, mode) == 0)
			return path;
		free(path);
	}
	return NULL;
}

char *source_varved(void)
{
	const char *set = getenv("VARVE_VARVED");
	char *path = set ? strdup(set) : find_own(varved_places, COUNT(varved_places), "", X_OK);

	if (!path)
		cli_fail("cannot find varved beside varve (VARVE_VARVED may name it)");
	return path;
}

static char *find_preload(const char *name)
{
	const char *set = getenv("VARVE_PRELOAD_DIR");
	char file[64], *path = NULL;

	if (strchr(name, '/') || (size_t)snprintf(file, sizeof(file), "/libvarve-preload-%s.so",
					 name) >= sizeof(file))
		return NULL;
	if (!set)
		return find_own(preload_places, COUNT(preload_places), file, R_OK);
	if (asprintf(&path, "%s%s", set, file) < 0 || access(path, R_OK) != 0) {
		free(path);
		return NULL;
	}
	return path;
}

int source_preload(const char *list, char **ret_paths)
{
	char *names = list ? strdup(list) : NULL, *rest = NULL, *paths = NULL, *longer;

	*ret_paths = NULL;
	for (char *name = names ? strtok_r(names, ",", &rest) : NULL; name;
		name = strtok_r(NULL, ",", &rest)) {
		char *path = find_preload(name);

		if (!path) {
			cli_fail(
				"--preload '%s': there is no library of that name (there is: libc)",
				name);
			free(names);
			free(paths);
			return CLI_USAGE;
		}
		if (asprintf(&longer, "%s%s%s", paths ? paths : "", paths ? ":" : "", path) < 0)
			abort();
		free(paths);
		free(path);
		paths = longer;
	}
	free(names);
	*ret_paths = paths;
	return 0;
}

int source_environment(const char *rundir, const char *preload)
{
	const char *before = getenv("LD_PRELOAD");
	char *all = NULL;
	int r = setenv("VARVE_RUNDIR", rundir, 1);

	if (r == 0 && preload && before && *before) {
		r = asprintf(&all, "%s:%s", preload, before) < 0 ? -1
								 : setenv("LD_PRELOAD", all, 1);
		free(all);
	} else if (r == 0 && preload) {
		r = setenv("LD_PRELOAD", preload, 1);
	}
	return r == 0 ? 0 : cli_fail("out of memory");
}

int source_exec(char **command)
{
	execvp(command[0], command);
	return errno;
}

int source_tell(const char *command, int err)
{
	if (err == ENOENT && !strchr(command, '/')) {
		cli_fail("%s: command not found", command);
		return CLI_NOT_FOUND;
	}
	cli_fail("%s: %s", command, strerror(err));
	return err == ENOENT || err == ENOTDIR ? CLI_NOT_FOUND : CLI_NOT_EXECUTABLE;
}
