#pragma once

#include <exception>

namespace halograd {

/// Knows whether an exception unwinds this rank's stack, since it was made, through the object that holds it. The other
/// ranks then do not come to a collective call: the object leaves what is freed collectively to the abort that follows.
class Unwinding {
 public:
  [[nodiscard]] bool now() const { return std::uncaught_exceptions() > before_; }

 private:
  int before_ = std::uncaught_exceptions();
};

}  // namespace halograd
