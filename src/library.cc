// libsumcast: everything in it comes from the rooms api/ and embedding/ and those below. A shared library needs a
// source of its own; this one makes sure that the C headers are C++ too.
#include "sumcast/sumcast.h"
#include "sumcast/table.h"
