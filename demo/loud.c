/* SPDX-License-Identifier: MIT */
/*
 * loud: what no flight recorder likes to meet: a packet switch that tells of every packet, millions
 * a second, and never sleeps. Also the shortest example of an instrumented program.
 */

#include <stdint.h>
#include <varve/varve.h>

VARVE_EVENT(net, rx, VARVE_DEBUG, (u32, len), (str, ifname));
VARVE_EVENT(net, drop, VARVE_WARNING, (u32, len), (str, ifname), (u64, total));

int main(void)
{
	static const char *const ifnames[] = { "eth0", "eth1", "wlan0" };
	uint64_t dropped = 0;

	for (uint32_t n = 0;; n++) {
		const char *ifname = ifnames[n % 3];
		uint32_t len = 60 + n * 2654435761u % 1440;

		varve_net_rx(len, ifname);
		if (n % 50000 == 0)
			varve_net_drop(len, ifname, ++dropped);
	}
}
