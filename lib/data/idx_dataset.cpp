#include <zlib.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "data/byte_dataset.hpp"
#include "data/readers.hpp"
#include "kernels/error.hpp"

namespace halograd {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t image_magic = 0x00000803;  // unsigned bytes, 3 extents
constexpr std::uint32_t label_magic = 0x00000801;  // unsigned bytes, 1 extent

/// A file read from front to back, through gzip where it is compressed; offsets are those of the decompressed bytes.
class ByteStream {
 public:
  explicit ByteStream(const fs::path& path)
      : path_(path), file_size_(fs::file_size(path)), file_(gzopen(path.c_str(), "rb"), gzclose) {
    HALOGRAD_REQUIRE(file_ != nullptr, path.string(), ": cannot be opened for reading");
    gzbuffer(file_.get(), 1U << 18U);
    compressed_ = gzdirect(file_.get()) == 0;
    HALOGRAD_REQUIRE(compressed_ || path.extension() != ".gz", path.string(), ": is not a gzip file");
  }

  /// Reads up to count bytes; fewer only at the end of the file.
  std::size_t read(std::uint8_t* bytes, std::size_t count) {
    constexpr std::size_t most = 1U << 30U;  // gzread counts in int
    std::size_t done = 0;
    while (done < count) {
      const int got = gzread(file_.get(), bytes + done, static_cast<unsigned>(std::min(most, count - done)));
      int status = Z_OK;
      const char* reason = gzerror(file_.get(), &status);
      if (got > 0) done += static_cast<std::size_t>(got);
      HALOGRAD_REQUIRE(got >= 0 && (status == Z_OK || status == Z_STREAM_END), path_.string(), ": ",
                       status == Z_BUF_ERROR ? "the gzip stream is truncated" : reason, " after ", offset_ + done,
                       " decompressed bytes");
      if (got == 0) break;
    }
    offset_ += done;
    return done;
  }

  std::uint32_t read_word(const char* what) {
    std::array<std::uint8_t, 4> bytes{};
    const std::size_t start = offset_;
    const std::size_t got = read(bytes.data(), bytes.size());
    HALOGRAD_REQUIRE(got == bytes.size(), path_.string(), ": truncated: the ", what, " at offset ", start,
                     " takes 4 bytes, found ", got);
    return (std::uint32_t{bytes[0]} << 24U) | (std::uint32_t{bytes[1]} << 16U) | (std::uint32_t{bytes[2]} << 8U) |
           std::uint32_t{bytes[3]};
  }

  /// The rest of the file, which must be count bytes.
  std::vector<std::uint8_t> read_rest(std::uint64_t count) {
    // Deflate packs at most 1032 to 1: a damaged header is found before memory is taken for what it claims.
    const std::uint64_t most = compressed_ ? 1032 * file_size_ : file_size_ - offset_;
    HALOGRAD_REQUIRE(count <= most, path_.string(), ": truncated: the header at offset 4 announces ", count,
                     " bytes from offset ", offset_, ", but the file of ", file_size_, " bytes cannot hold them");
    const std::size_t start = offset_;
    std::vector<std::uint8_t> bytes(count);
    const std::size_t got = read(bytes.data(), bytes.size());
    HALOGRAD_REQUIRE(got == bytes.size(), path_.string(), ": truncated: expected ", bytes.size(), " bytes from offset ",
                     start, ", found ", got);
    std::uint8_t extra = 0;
    HALOGRAD_REQUIRE(read(&extra, 1) == 0, path_.string(), ": trailing bytes: expected the end of the file at offset ",
                     start + bytes.size());
    return bytes;
  }

 private:
  fs::path path_;
  std::uint64_t file_size_;
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file_;
  bool compressed_ = false;
  std::size_t offset_ = 0;
};

struct IdxFile {
  std::vector<std::uint32_t> extents;
  std::vector<std::uint8_t> values;
  [[nodiscard]] std::size_t header() const { return 4 + 4 * extents.size(); }
};

IdxFile read_idx(const fs::path& path, std::uint32_t magic, const char* what) {
  ByteStream stream(path);
  const std::uint32_t found = stream.read_word("magic number");
  HALOGRAD_REQUIRE(found == magic, path.string(), ": magic number at offset 0 is ", found, ", expected ", magic,
                   " (IDX ", what, ")");
  IdxFile file;
  std::uint64_t count = 1;
  for (std::uint32_t i = 0; i < (magic & 0xffU); ++i) {
    file.extents.push_back(stream.read_word("extent"));
    HALOGRAD_REQUIRE(file.extents.back() > 0 && (i == 0 || file.extents.back() <= 65535U), path.string(),
                     ": the extent at offset ", 4 + 4 * i, " is ", file.extents.back(), ", expected 1..",
                     i == 0 ? 4294967295U : 65535U);
    count *= file.extents.back();
  }
  file.values = stream.read_rest(count);
  return file;
}

/// The names a set may have: before and after "images-idx3-ubyte" or "labels-idx1-ubyte".
struct IdxNames {
  std::string train;  // "train-"
  std::string test;   // "t10k-"
};

/// The plain or else the gzipped file of that name; an empty path where there is neither.
fs::path find_file(const fs::path& folder, const std::string& name) {
  for (const char* ending : {"", ".gz"})
    if (fs::path path = folder / (name + ending); fs::is_regular_file(path)) return path;
  return {};
}

IdxNames find_names(const fs::path& folder) {
  if (!find_file(folder, "train-images-idx3-ubyte").empty() || !find_file(folder, "t10k-images-idx3-ubyte").empty())
    return {"train-", "t10k-"};
  const std::string start = "emnist-";
  const std::string end = "-train-images-idx3-ubyte";
  std::set<std::string> splits;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name =
        entry.path().extension() == ".gz" ? entry.path().stem().string() : entry.path().filename().string();
    if (name.starts_with(start) && name.ends_with(end) && name.size() > start.size() + end.size())
      splits.insert(name.substr(0, name.size() - end.size()));
  }
  if (splits.size() == 1) return {*splits.begin() + "-train-", *splits.begin() + "-test-"};
  std::string found;
  for (const std::string& split : splits) found += " " + split;
  HALOGRAD_REQUIRE(splits.empty(), folder.string(), ": holds ", splits.size(), " sets (", found.substr(1),
                   "), expected one; give each set a folder of its own");
  fail(folder.string(), ": holds no IDX images; looked for train-images-idx3-ubyte, t10k-images-idx3-ubyte and ",
       "emnist-<split>-train-images-idx3-ubyte, plain or .gz. Expected the four files of MNIST, Fashion-MNIST "
       "(Debian's ",
       "package dataset-fashion-mnist installs them) or of one split of EMNIST");
}

/// `labels`: one per image, or none.
std::unique_ptr<Dataset> with_labels(IdxFile images, int classes, std::vector<std::int32_t> labels) {
  const ImageShape shape{static_cast<int>(images.extents[1]), static_cast<int>(images.extents[2]), 1};
  return std::make_unique<ByteDataset>(shape, classes, std::move(images.values), std::move(labels));
}

fs::path require_file(const fs::path& folder, const std::string& name) {
  fs::path path = find_file(folder, name);
  HALOGRAD_REQUIRE(!path.empty(), (folder / name).string(), ": no such file, nor ", name, ".gz; data.path must name a ",
                   "folder that holds images and labels of both training and test set");
  return path;
}

}  // namespace

std::unique_ptr<Dataset> open_idx(const fs::path& folder, Split split) {
  HALOGRAD_REQUIRE(fs::is_directory(folder), "data.path: ", folder.string(), ": ",
                   fs::exists(folder) ? "is not a folder" : "no such folder", ", expected one that holds IDX files (",
                   "train-images-idx3-ubyte[.gz] and so on; for Fashion-MNIST install Debian's package ",
                   "dataset-fashion-mnist, or name the folder you put its four files in)");
  const IdxNames names = find_names(folder);
  const std::string& prefix = split == Split::train ? names.train : names.test;
  const fs::path image_path = require_file(folder, prefix + "images-idx3-ubyte");
  const fs::path label_path = require_file(folder, prefix + "labels-idx1-ubyte");

  // The files do not say how many classes there are: the training labels do, for both splits.
  const fs::path class_path = require_file(folder, names.train + "labels-idx1-ubyte");
  const IdxFile class_file = read_idx(class_path, label_magic, "labels");
  const std::vector<std::int32_t> class_labels(class_file.values.begin(), class_file.values.end());
  const LabelScan scan = scan_labels(class_labels);
  if (scan.first_beyond >= 0) {
    const auto at = static_cast<std::size_t>(scan.first_beyond);
    fail(class_path.string(), ": label at offset ", class_file.header() + at, " is ", class_labels[at],
         " but no training image has label ", scan.classes, "; expected labels 0, 1, 2, ... without a gap");
  }

  const IdxFile labels = split == Split::train ? class_file : read_idx(label_path, label_magic, "labels");
  for (std::size_t i = 0; i < labels.values.size(); ++i)
    HALOGRAD_REQUIRE(labels.values[i] < scan.classes, label_path.string(), ": label at offset ", labels.header() + i,
                     " is ", int{labels.values[i]}, ", expected one in 0..", scan.classes - 1);

  IdxFile images = read_idx(image_path, image_magic, "images");
  HALOGRAD_REQUIRE(images.extents[0] == labels.extents[0], image_path.string(), ": holds ", images.extents[0],
                   " images (offset 4), expected ", labels.extents[0], ", the number of labels in ",
                   label_path.string());
  return with_labels(std::move(images), scan.classes, {labels.values.begin(), labels.values.end()});
}

std::unique_ptr<Dataset> open_idx_images(const fs::path& path, Split split) {
  if (fs::is_regular_file(path)) return with_labels(read_idx(path, image_magic, "images"), 0, {});
  const IdxNames names = find_names(path);
  const std::string& prefix = split == Split::train ? names.train : names.test;
  return with_labels(read_idx(require_file(path, prefix + "images-idx3-ubyte"), image_magic, "images"), 0, {});
}

bool is_idx(const fs::path& path) {
  if (fs::is_regular_file(path)) {
    std::array<char, 4> start{};
    std::ifstream(path, std::ios::binary).read(start.data(), start.size());
    constexpr std::array<char, 4> images{0, 0, 8, 3};
    return start == images || (start[0] == '\x1f' && start[1] == '\x8b');
  }
  return std::any_of(fs::directory_iterator(path), fs::directory_iterator(), [](const fs::directory_entry& entry) {
    const std::string name = entry.path().filename().string();
    return name[0] != '.' && name.find("-images-idx3-ubyte") != std::string::npos;
  });
}

}  // namespace halograd
