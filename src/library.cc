// libsumcast: everything in it comes from the room api/ and those below. A shared library needs a
// source of its own; this one makes sure that the C header is C++ too.
#include "sumcast/sumcast.h"
