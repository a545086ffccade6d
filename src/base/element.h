// Element types and reductions are part of the public API; the rooms include them from here.
#pragma once

#include "sumcast/element.hpp"  // IWYU pragma: export
