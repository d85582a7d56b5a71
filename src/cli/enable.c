/* SPDX-License-Identifier: MIT */
/* varve enable: record these events too. */

#include "cli/cli.h"

const struct cli_verb cli_enable = {
	.name = "enable",
	.synopsis = "NAME -e PATTERN...",
	.summary = "record these events too",
	.help = "Adds the patterns to the end of the rules of session NAME: the last match wins. A pattern is\n"
		"'provider:event' with * and ?. Takes effect at once, in all programs.\n\n"
		"  -e, --event PATTERN  repeats, one pattern each\n",
	.run = cli_rules_run,
};
