// Small things that programs take from ps-lite's headers.
#ifndef PS_INTERNAL_UTILS_H_
#define PS_INTERNAL_UTILS_H_

#include <cstdint>
#include <cstdlib>
#include <string>

#include "dmlc/logging.h"
#include "ps/internal/env.h"

namespace ps {

/// The variable's value, or the default if it is unset or empty.
template <typename V>
inline V GetEnv(const char* name, V otherwise) {
  const char* value = Environment::Get()->find(name);
  return value == nullptr ? otherwise : V(value);
}

inline int GetEnv(const char* name, int otherwise) {
  const char* value = Environment::Get()->find(name);
  return value == nullptr ? otherwise : std::atoi(value);
}

}  // namespace ps

#ifndef DISALLOW_COPY_AND_ASSIGN
#define DISALLOW_COPY_AND_ASSIGN(TypeName) \
  TypeName(const TypeName&) = delete;      \
  void operator=(const TypeName&) = delete
#endif

#ifndef LL
#define LL LOG(ERROR)
#endif

#endif  // PS_INTERNAL_UTILS_H_
