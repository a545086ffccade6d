// Starts and ends a node, and does nothing in between.
#include "ps/ps.h"

int main() {
  ps::Start(0);
  ps::Finalize(0, true);
  return 0;
}
