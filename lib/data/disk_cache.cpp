#include "data/disk_cache.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>
#include <zlib.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <system_error>
#include <utility>

#include "kernels/error.hpp"
#include "support/system_reason.hpp"
#include "support/text_file.hpp"

namespace halograd {
namespace {

namespace fs = std::filesystem;

constexpr const char* title = "halograd data cache 1\n";
constexpr const char* block_prefix = "block-";

/// At the end of a block's file.
struct Trailer {
  std::array<char, 8> magic{'h', 'a', 'l', 'o', 'b', 'l', 'k', '1'};
  std::uint64_t bytes = 0;
  std::uint64_t checksum = 0;
  bool operator==(const Trailer&) const = default;
};

Trailer trailer_of(const std::vector<std::uint8_t>& bytes) {
  Trailer trailer;
  trailer.bytes = bytes.size();
  trailer.checksum = crc32_z(crc32_z(0, nullptr, 0), bytes.data(), bytes.size());
  return trailer;
}

/// 64 bits of FNV-1a as hexadecimal digits: a name for a folder, not a proof, which source.txt is.
std::string short_name(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char letter : text) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3ULL;
  std::array<char, 20> digits{};
  std::snprintf(digits.data(), digits.size(), "%016llx", static_cast<unsigned long long>(hash));
  return digits.data();
}

/// Holds the folder's lock, so that of the node's ranks one after the other looks at it.
class FolderLock {
 public:
  explicit FolderLock(const fs::path& path) : file_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
    HALOGRAD_REQUIRE(file_ >= 0, system_reason());
    ::flock(file_,
            LOCK_EX);  // a file system without locks: ranks may then remove stale blocks twice, which is harmless
  }
  ~FolderLock() { ::close(file_); }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int file_;
};

bool is_ours(const fs::path& path) {
  const std::string name = path.filename().string();
  return name == "source.txt" || name == "lock" || name.rfind(block_prefix, 0) == 0;
}

}  // namespace

DiskCache::DiskCache(const fs::path& folder, const std::string& name, const std::string& identity, Warn warn)
    : folder_(folder / ("halograd-" + short_name(name))), warn_(std::move(warn)) {
  try {
    HALOGRAD_REQUIRE(fs::is_directory(folder), fs::exists(folder) ? "is not a folder" : "no such folder");
    claim(identity);
  } catch (const fs::filesystem_error& error) {  // one sentence for all sets: without the name below the folder
    writable_ = false;
    stop(readable_, error.code().message());
  } catch (const std::exception& error) {
    writable_ = false;
    stop(readable_, error.what());
  }
}

void DiskCache::claim(const std::string& identity) {
  fs::create_directory(folder_);
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_))
    HALOGRAD_REQUIRE(is_ours(entry.path()), "holds ", entry.path().filename().string(),
                     ", which halograd did not put there");
  const FolderLock lock(folder_ / "lock");
  const fs::path source = folder_ / "source.txt";
  const std::string wanted = title + identity;
  if (fs::exists(source)) {
    const std::string found = read_text(source.string());
    if (found == wanted) return;
    HALOGRAD_REQUIRE(found.empty() || found.rfind(title, 0) == 0, "source.txt in it was not written by halograd");
    if (warn_ && !found.empty())
      warn_("data.cache_folder: " + folder_.string() +
            " holds blocks of an older state of the data, which are dropped");
    for (const fs::directory_entry& entry : fs::directory_iterator(folder_))
      if (entry.path().filename().string().rfind(block_prefix, 0) == 0) fs::remove(entry.path());
  }
  std::ofstream file(source, std::ios::binary);
  file << wanted << std::flush;
  HALOGRAD_REQUIRE(file.good(), "cannot be written: ", system_reason());
}

fs::path DiskCache::file_of(long block) const {
  return folder_ / (block_prefix + std::to_string(block));
}

bool DiskCache::keeps(long block) const {
  return writable_ || (readable_ && fs::exists(file_of(block)));
}

bool DiskCache::read(long block, std::vector<std::uint8_t>& bytes) const {
  if (!readable_) return false;
  std::ifstream file(file_of(block), std::ios::binary);
  if (!file.is_open()) return false;
  Trailer trailer;
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  file.read(reinterpret_cast<char*>(&trailer), sizeof(trailer));
  const bool whole = file.good() && file.peek() == std::ifstream::traits_type::eof();
  return whole && trailer == trailer_of(bytes);
}

void DiskCache::write(long block, const std::vector<std::uint8_t>& bytes) const {
  if (!writable_) return;
  const fs::path path = file_of(block);
  const fs::path partial = path.string() + "." + std::to_string(::getpid()) + "-" + std::to_string(++written_);
  try {
    const fs::space_info space = fs::space(folder_);
    HALOGRAD_REQUIRE(space.available > space.capacity / 20 + bytes.size(), "the disk is full (", space.available >> 20U,
                     " of ", space.capacity >> 20U, " MiB are free)");
    std::ofstream file(partial, std::ios::binary);
    const Trailer trailer = trailer_of(bytes);
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    file.write(reinterpret_cast<const char*>(&trailer), sizeof(trailer));
    file.close();
    HALOGRAD_REQUIRE(file.good(), "cannot be written: ", system_reason());
    fs::rename(partial, path);
  } catch (const std::exception& error) {
    std::error_code ignored;
    fs::remove(partial, ignored);
    stop(writable_, error.what());
  }
}

void DiskCache::stop(std::atomic<bool>& use, const std::string& why) const {
  if (!use.exchange(false) || !warn_) return;
  const bool reads = &use == &writable_;
  warn_("data.cache_folder: " + folder_.parent_path().string() + ": " + why + "; the run continues " +
        (reads ? "with the blocks that are already there" : "without it"));
}

}  // namespace halograd
