/* SPDX-License-Identifier: MIT */
#include "lib/test/subject.h"

int main(int argc, char **argv)
{
	return subject_main(argc, argv);
}
