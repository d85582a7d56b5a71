/* SPDX-License-Identifier: MIT */
/*
 * pingpong IN OUT FIRST N: passes a token with another pingpong over two FIFOs, N times, and emits
 * an event test:token (n) each time that it holds it. Whatever clocks there are, the trace must
 * show the numbers of both programs one by one.
 */

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <varve/varve.h>

VARVE_EVENT(test, token, VARVE_INFO, (u32, n));

int main(int argc, char **argv)
{
	uint32_t token = 0, rounds;
	bool begins;
	int in, out;

	if (argc != 5)
		return 2;
	begins = atoi(argv[3]) != 0;
	rounds = (uint32_t)atoi(argv[4]);
	/* Each open waits for the other's: both must come in the same order. */
	out = begins ? open(argv[2], O_WRONLY | O_CLOEXEC) : -1;
	in = open(argv[1], O_RDONLY | O_CLOEXEC);
	if (!begins)
		out = open(argv[2], O_WRONLY | O_CLOEXEC);
	if (in < 0 || out < 0) {
		perror("pingpong");
		return 1;
	}
	for (uint32_t i = 0; i < rounds; i++) {
		if (!begins || i > 0)
			if (read(in, &token, sizeof(token)) != sizeof(token))
				return 1;
		varve_test_token(token);
		token++;
		/* Nobody waits for the last one. */
		if (begins || i < rounds - 1)
			if (write(out, &token, sizeof(token)) != sizeof(token))
				return 1;
	}
	return 0;
}
