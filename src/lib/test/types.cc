// SPDX-License-Identifier: MIT
#include <cfloat>
#include <cstring>
#include "lib/test/subject.h"

namespace inner
{
#include "lib/test/types.h"
} // namespace inner

extern "C" void subject_types_cpp(void)
{
	inner::emit_types();
}
