#include <sanitizer/allocator_interface.h>

#include "memory_bound.hpp"

/// Under libFuzzer all memory is counted, that of HDF5 and other C libraries too: the address sanitizer allocates it.
namespace halograd::fuzz {
namespace {

void allocated(const volatile void* /*memory*/, std::size_t bytes) {
  count_memory(static_cast<std::int64_t>(bytes));
}

void freed(const volatile void* memory) {
  if (memory != nullptr) count_memory(-static_cast<std::int64_t>(__sanitizer_get_allocated_size(memory)));
}

[[maybe_unused]] const int installed = __sanitizer_install_malloc_and_free_hooks(allocated, freed);

}  // namespace
}  // namespace halograd::fuzz
