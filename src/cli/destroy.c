/* SPDX-License-Identifier: MIT */
/* varve destroy: end a session and free its memory. */

#include "cli/cli.h"

const struct cli_verb cli_destroy = {
	.name = "destroy",
	.synopsis = "NAME",
	.summary = "end a session and free its memory",
	.help = "Ends a session and gives all of its memory back; what it recorded is gone.\n",
	.run = cli_session_run,
};
