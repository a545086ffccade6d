// The environment that a job is configured from: the process's, or a table given instead.
#ifndef PS_INTERNAL_ENV_H_
#define PS_INTERNAL_ENV_H_

#include <memory>
#include <string>
#include <unordered_map>

namespace ps {

/// Thread-safe.
class Environment {
 public:
  /// Never null.
  static Environment* Get();
  static std::shared_ptr<Environment> _GetSharedRef();

  /// From now on these values come first; what they lack is looked up in the process's environment.
  /// Pointers that find() has returned stay valid.
  static Environment* Init(const std::unordered_map<std::string, std::string>& envs);

  /// The value, or null if it is unset or empty. Valid as long as the process lives.
  const char* find(const char* name);

 private:
  Environment();
  struct Tables;
  std::shared_ptr<Tables> tables_;
};

}  // namespace ps
#endif  // PS_INTERNAL_ENV_H_
