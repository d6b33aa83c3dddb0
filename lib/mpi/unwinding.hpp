#pragma once

#include <exception>

#include "kernels/error.hpp"

namespace halograd {

/// Knows whether an exception unwinds this rank's stack alone, since it was made, through the object that holds it. The
/// other ranks then do not come to a collective call: the object leaves what is freed collectively to the abort that
/// follows. Where all ranks unwind they free it, which UCX insists on before MPI_Finalize.
class Unwinding {
 public:
  [[nodiscard]] bool now() const { return std::uncaught_exceptions() > before_ && !CollectiveError::exists(); }

 private:
  int before_ = std::uncaught_exceptions();
};

}  // namespace halograd
