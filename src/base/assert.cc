#include "base/assert.h"

#include <cstdio>
#include <cstdlib>

namespace sumcast {

void panic(const char* file, int line, const char* condition) noexcept {
  std::fprintf(stderr,
               "sumcast: internal error: %s does not hold (%s:%d); this is a bug in sumcast\n",
               condition, file, line);
  std::abort();
}

}  // namespace sumcast
