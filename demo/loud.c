/* SPDX-License-Identifier: MIT */
/*
 * loud: what no flight recorder likes to meet: a packet switch that tells of every packet, a million
 * a second, and never sleeps. Also the shortest example of an instrumented program.
 */

#include <stdint.h>
#include <varve/varve.h>

VARVE_EVENT(net, rx, VARVE_DEBUG, (u32, len), (str, ifname));
VARVE_EVENT(net, drop, VARVE_WARNING, (u32, len), (str, ifname), (u64, total));

static uint8_t packet[1514];

/* The work that a switch has with a packet. */
static uint32_t checksum(uint32_t len)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < len; i++)
		sum = (sum << 1 | sum >> 31) ^ packet[i];
	return sum;
}

int main(void)
{
	static const char *const ifnames[] = { "eth0", "eth1", "wlan0" };
	uint64_t dropped = 0;

	for (uint32_t n = 0;; n++) {
		const char *ifname = ifnames[n % 3];
		uint32_t len = 60 + n * 2654435761u % 1440;

		packet[n % sizeof(packet)] = (uint8_t)n;
		varve_net_rx(len, ifname);
		if (checksum(len) % 50000 == 0)
			varve_net_drop(len, ifname, ++dropped);
	}
}
