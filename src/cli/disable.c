/* SPDX-License-Identifier: MIT */
/* varve disable: record these events no more. */

#include "cli/cli.h"

const struct cli_verb cli_disable = {
	.name = "disable",
	.synopsis = "NAME -e PATTERN...",
	.summary = "record these events no more",
	.help = "Adds rules to session NAME that leave events out: -e net:* adds '!net:*'; the last match\n"
		"wins. Takes effect at once, in all programs.\n\n"
		"  -e, --event PATTERN  repeats, one pattern each\n",
	.run = cli_rules_run,
};
