#include "support/text_file.hpp"

#include <array>
#include <filesystem>
#include <fstream>

#include "kernels/error.hpp"
#include "support/system_reason.hpp"

namespace halograd {

std::string read_text(const std::string& path) {
  HALOGRAD_REQUIRE(!std::filesystem::is_directory(path), path, ": is a folder, expected a file");
  std::ifstream file(path, std::ios::binary);
  HALOGRAD_REQUIRE(file, path, ": cannot be opened: ", system_reason());
  std::string text;
  std::array<char, 65536> piece{};
  while (file.read(piece.data(), piece.size()), file.gcount() > 0) {
    text.append(piece.data(), static_cast<std::size_t>(file.gcount()));
  }
  HALOGRAD_REQUIRE(!file.bad(), path, ": cannot be read: ", system_reason());
  return text;
}

void write_text(const std::string& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  HALOGRAD_REQUIRE(file, path, ": cannot be written: ", system_reason());
}

}  // namespace halograd
