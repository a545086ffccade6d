// Result and Error are part of the public API; the rooms include them from here.
#pragma once

#include "sumcast/result.hpp"  // IWYU pragma: export
