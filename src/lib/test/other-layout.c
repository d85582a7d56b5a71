/* SPDX-License-Identifier: MIT */
/* An event of the same name as one in subject.c, with other fields: two events. */
#include "lib/test/subject.h"

VARVE_EVENT(subject, twice, VARVE_INFO, (str, text));

void subject_other_layout(void)
{
	varve_subject_twice("second layout");
	varve_subject_tick(1);
}
