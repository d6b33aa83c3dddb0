#include <malloc.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <new>
#include <string_view>
#include <vector>

#include "memory_bound.hpp"

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

void give_back(void* memory) {
  halograd::fuzz::count_memory(-static_cast<std::int64_t>(malloc_usable_size(memory)));
  std::free(memory);
}

}  // namespace

// C++ memory alone is counted here; sanitizer_memory.cpp counts all.
void* operator new(std::size_t bytes) {
  void* memory = std::malloc(bytes);
  if (memory == nullptr) std::abort();
  halograd::fuzz::count_memory(static_cast<std::int64_t>(malloc_usable_size(memory)));
  return memory;
}
void* operator new(std::size_t bytes, const std::nothrow_t& /*tag*/) noexcept {  // else a sanitizer's
  return operator new(bytes);
}
void operator delete(void* memory) noexcept {
  give_back(memory);
}
void operator delete(void* memory, std::size_t /*bytes*/) noexcept {
  give_back(memory);
}

/// Replays inputs where libFuzzer is not there: halograd_fuzz_replay --target=NAME FOLDER_OF_INPUTS
int main(int argc, char** argv) {
  LLVMFuzzerInitialize(&argc, &argv);
  int inputs = 0;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]).starts_with("--")) continue;
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
      std::printf("%s\n", entry.path().c_str());
      std::fflush(stdout);
      std::ifstream file(entry.path(), std::ios::binary);
      const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
      const std::clock_t start = std::clock();  // of the processor: a busy machine is no fault
      LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
      if (std::clock() - start > 5 * CLOCKS_PER_SEC) {
        std::fprintf(stderr, "fault: the reader took more than 5 s\n");
        std::abort();
      }
      ++inputs;
    }
  }
  if (inputs == 0) std::fprintf(stderr, "replay: no inputs\n");
  return inputs > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
