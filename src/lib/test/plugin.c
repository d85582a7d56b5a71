/* SPDX-License-Identifier: MIT */
/* A library with events that is loaded and unloaded; built twice. */
#include "lib/test/subject.h"

VARVE_EVENT(plugin, hello, VARVE_INFO, (u32, n), (str, where));

__attribute__((visibility("default"))) void plugin_call(uint32_t n);

__attribute__((constructor)) static void load(void)
{
	varve_plugin_hello(0, "constructor");
}

__attribute__((destructor)) static void unload(void)
{
	varve_plugin_hello(0, "destructor");
}

void plugin_call(uint32_t n)
{
	varve_plugin_hello(n, "call");
}
