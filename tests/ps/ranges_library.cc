// A library that was built against include/ps by itself, and asks for ranges.
#include "ps/ps.h"

extern "C" unsigned long first_key_of_last_server();
extern "C" unsigned long first_key_of_last_server() {
  return ps::Postoffice::Get()->GetServerKeyRanges().back().begin();
}
