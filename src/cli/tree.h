/* SPDX-License-Identifier: MIT */
#ifndef VARVE_CLI_TREE_H
#define VARVE_CLI_TREE_H

/*
 * Removes what is called name in the open directory dir_fd, with all below it. Follows no symbolic
 * link and goes at most a few levels deep. 0, or -errno of the first thing that would not go.
 */
int tree_remove(int dir_fd, const char *name);

/* Whether the open directory has no entry. 1, 0, or -errno. */
int tree_is_empty(int dir_fd);

#endif
