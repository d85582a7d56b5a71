/* SPDX-License-Identifier: MIT */
#ifndef VARVE_CLI_SOURCE_H
#define VARVE_CLI_SOURCE_H

/*
 * A command as a source of events: the environment that it runs in, and where varve's own files are.
 * Errors have been told in one line when a function returns an exit code.
 */

/*
 * Looks the preload libraries up that --preload names ("libc,pthread"). 0 and *ret_paths, which is
 * theirs as LD_PRELOAD wants them (new; NULL if list is NULL), or an exit code.
 */
int source_preload(const char *list, char **ret_paths);

/* The environment of a source of the daemon in rundir: VARVE_RUNDIR, and LD_PRELOAD if preload is
 * not NULL, in front of what it was. 0, or an exit code. */
int source_environment(const char *rundir, const char *preload);

/* Becomes the command. Returns errno if that failed. */
int source_exec(char **command);

/* Tells why a command could not be run. The exit code: CLI_NOT_FOUND or CLI_NOT_EXECUTABLE. */
int source_tell(const char *command, int err);

/* The path of varved: VARVE_VARVED, or beside this program. New string; NULL when it has been told. */
char *source_varved(void);

#endif
