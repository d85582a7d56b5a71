/* SPDX-License-Identifier: MIT */
/* host MODULE CASE...: runs the subject from a module that it loads with dlopen(). */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	void *module = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
	int (*subject)(int, char **);

	if (!module) {
		fprintf(stderr, "%s\n", dlerror());
		return 99;
	}
	*(void **)&subject = dlsym(module, "subject_main");
	return subject ? subject(argc - 1, argv + 1) : 98;
}
