/* SPDX-License-Identifier: MIT */
/* varve stop: end recording, keep the data. */

#include "cli/cli.h"

const struct cli_verb cli_stop = {
	.name = "stop",
	.synopsis = "NAME",
	.summary = "end recording, keep the data",
	.help = "Ends recording. The data stay until 'varve destroy', so a snapshot still works.\n",
	.run = cli_session_run,
};
