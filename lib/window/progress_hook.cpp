#include "window/progress_hook.hpp"

#include <mutex>
#include <utility>
#include <vector>

namespace halograd {
namespace {

struct Hooks {
  std::mutex mutex;
  std::vector<ProgressHook*> all;
};

Hooks& hooks() {
  static Hooks hooks;
  return hooks;
}

}  // namespace

ProgressHook::ProgressHook(std::function<void()> work) : work_(std::move(work)) {
  const std::lock_guard lock(hooks().mutex);
  hooks().all.push_back(this);
}

ProgressHook::~ProgressHook() {
  const std::lock_guard lock(hooks().mutex);
  std::erase(hooks().all, this);
}

void ProgressHook::run_all() {
  const std::lock_guard lock(hooks().mutex);
  for (const ProgressHook* hook : hooks().all) hook->work_();
}

bool ProgressHook::any() {
  const std::lock_guard lock(hooks().mutex);
  return !hooks().all.empty();
}

}  // namespace halograd
