// ps::Environment: a table given by the program, over the process's environment.
#include "ps/internal/env.h"

#include <mutex>
#include <set>

#include "runtime/environment.h"

namespace ps {

/// Values are interned and never freed: pointers to them are handed out.
struct Environment::Tables {
  std::mutex mutex;
  std::unordered_map<std::string, std::string> given;
  std::set<std::string> values;
};

Environment::Environment() : tables_(std::make_shared<Tables>()) {}

std::shared_ptr<Environment> Environment::_GetSharedRef() {
  static const auto* const instance =
      new std::shared_ptr<Environment>(std::shared_ptr<Environment>(new Environment));
  return *instance;
}

Environment* Environment::Get() { return _GetSharedRef().get(); }

Environment* Environment::Init(const std::unordered_map<std::string, std::string>& envs) {
  Environment* const environment = Get();
  const std::lock_guard<std::mutex> lock(environment->tables_->mutex);
  environment->tables_->given = envs;
  return environment;
}

const char* Environment::find(const char* name) {
  const std::lock_guard<std::mutex> lock(tables_->mutex);
  const auto it = tables_->given.find(name);
  std::string value;
  if (it != tables_->given.end()) {
    value = it->second;
  } else if (const auto outside = sumcast::runtime::environment(name)) {
    value = *outside;
  }
  return value.empty() ? nullptr : tables_->values.insert(value).first->c_str();
}

}  // namespace ps
