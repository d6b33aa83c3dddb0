#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <new>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {
// As -malloc_limit_mb of libFuzzer: no input of the corpus may have a reader take more at once.
constexpr std::size_t most_at_once = std::size_t{128} << 20U;

// nvcc takes operator new for device code, which has no stderr.
[[noreturn]] void refuse(std::size_t bytes) {
  std::fprintf(stderr, "fault: %zu bytes were asked for at once\n", bytes);
  std::abort();
}
}  // namespace

void* operator new(std::size_t bytes) {
  void* memory = bytes > most_at_once ? nullptr : std::malloc(bytes);
  if (memory == nullptr) refuse(bytes);
  return memory;
}
void* operator new(std::size_t bytes, const std::nothrow_t& /*tag*/) noexcept {  // else a sanitizer's
  return operator new(bytes);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t /*bytes*/) noexcept {
  std::free(memory);
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
      LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
      ++inputs;
    }
  }
  if (inputs == 0) std::fprintf(stderr, "replay: no inputs\n");
  return inputs > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
