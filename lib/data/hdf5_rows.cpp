#include "data/hdf5_rows.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <functional>
#include <numeric>
#include <utility>

#include "hdf5/objects.hpp"
#include "kernels/error.hpp"
#include "support/system_reason.hpp"
#include "support/text.hpp"

namespace halograd {
namespace {

namespace fs = std::filesystem;

}  // namespace

Hdf5Rows::Hdf5Rows(fs::path path, std::string name, Hdf5Dataset dataset, hid_t memory_type, double megabytes_per_second,
                   long block_rows, const Hdf5Box& part)
    : path_(std::move(path)),
      name_(std::move(name)),
      where_(path_.string() + ":" + name_),
      dataset_(std::move(dataset)),
      memory_type_(memory_type),
      throttle_(megabytes_per_second) {
  const Hdf5Session session;
  extents_ = dataset_extents(dataset_, "extents", where_);
  part_ = part;
  if (part_.count.empty()) {
    part_.start.assign(extents_.size() - 1, 0);
    part_.count.assign(extents_.begin() + 1, extents_.end());
  }
  layout_.rows = static_cast<long>(extents_[0]);
  whole_row_bytes_ = layout_.row_bytes = H5Tget_size(memory_type);
  // What can be addressed, and what a network's shapes can say, end long before a product of extents does.
  constexpr std::size_t most_row = std::size_t{1} << 48U, most = std::size_t{1} << 62U;
  for (std::size_t i = 1; i < extents_.size(); ++i) {
    HALOGRAD_REQUIRE(extents_[i] <= most_row / whole_row_bytes_, where_, ": one of its rows has more than 2^48 bytes");
    whole_row_bytes_ *= static_cast<std::size_t>(extents_[i]);
    layout_.row_bytes *= static_cast<std::size_t>(part_.count[i - 1]);
  }
  HALOGRAD_REQUIRE(extents_[0] <= most / whole_row_bytes_, where_, ": has more than 2^62 bytes");
  require_held(dataset_, H5Tget_size(memory_type), "values", where_);

  const Hdf5PropertyList properties(HALOGRAD_HDF5(H5Dget_create_plist(dataset_), where_, "layout"));
  if (H5Pget_layout(properties) == H5D_CHUNKED) {
    std::vector<hsize_t> chunk(extents_.size());
    H5Pget_chunk(properties, static_cast<int>(chunk.size()), chunk.data());
    chunk_rows_ = static_cast<long>(chunk[0]);
  }
  const long step = std::max(1L, chunk_rows_);  // whole chunks, so that none is read or decompressed twice
  const auto wanted = static_cast<long>(std::max<std::size_t>(1, block_bytes / whole_row_bytes_));
  layout_.block_rows = std::min(layout_.rows, block_rows > 0 ? block_rows : (wanted + step - 1) / step * step);

  storage_ = find_storage(memory_type);
  if (storage_ != Storage::through_hdf5) file_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (file_ < 0) storage_ = Storage::through_hdf5;
}

Hdf5Rows::~Hdf5Rows() {
  if (file_ >= 0) ::close(file_);
}

Hdf5Rows::Storage Hdf5Rows::find_storage(hid_t memory_type) {
  const Hdf5Type type = dataset_type(dataset_, "type", where_);
  if (H5Tequal(type, memory_type) <= 0) return Storage::through_hdf5;
  const bool whole = std::equal(part_.count.begin(), part_.count.end(), extents_.begin() + 1);
  if (!whole) return Storage::through_hdf5;
  const Hdf5File file(HALOGRAD_HDF5(H5Iget_file_id(dataset_), where_, "file"));
  const Hdf5PropertyList file_creation(HALOGRAD_HDF5(H5Fget_create_plist(file), where_, "file"));
  hsize_t user_block = 0;
  H5Pget_userblock(file_creation, &user_block);
  if (user_block != 0) return Storage::through_hdf5;  // versions differ in whether addresses count it
  const Hdf5PropertyList properties(HALOGRAD_HDF5(H5Dget_create_plist(dataset_), where_, "layout"));
  if (H5Pget_layout(properties) == H5D_CONTIGUOUS) {
    const haddr_t address = H5Dget_offset(dataset_);
    if (address == HADDR_UNDEF || H5Pget_external_count(properties) != 0) return Storage::through_hdf5;
    address_ = static_cast<long>(address);
    return Storage::contiguous;
  }
#if H5_VERSION_GE(1, 10, 5)
  if (chunk_rows_ == 0 || H5Pget_nfilters(properties) != 0) return Storage::through_hdf5;
  std::vector<hsize_t> chunk(extents_.size());
  H5Pget_chunk(properties, static_cast<int>(chunk.size()), chunk.data());
  const bool whole_rows = std::equal(chunk.begin() + 1, chunk.end(), extents_.begin() + 1);
  return whole_rows ? Storage::chunks : Storage::through_hdf5;
#else
  return Storage::through_hdf5;
#endif
}

void Hdf5Rows::read(long first, long count, std::uint8_t* out) const {
  throttle_.pass(static_cast<std::size_t>(count) * layout_.row_bytes);
  if (!read_directly(first, count, out)) read_through_hdf5(first, count, out);
}

void Hdf5Rows::read_part(long row, const Hdf5Box& part, std::uint8_t* out) const {
  const Hdf5Session session;
  throttle_.pass(std::accumulate(part.count.begin(), part.count.end(), H5Tget_size(memory_type_), std::multiplies<>()));
  read_piece(row, 1, part, out);
}

bool Hdf5Rows::read_directly(long first, long count, std::uint8_t* out) const {
  if (storage_ == Storage::through_hdf5) return false;
  if (storage_ == Storage::contiguous) {
    read_at(address_ + first * static_cast<long>(layout_.row_bytes),
            static_cast<std::size_t>(count) * layout_.row_bytes, first, count, out);
    return true;
  }
  for (long row = first; row < first + count;) {
    const long chunk = row / chunk_rows_;
    const long rows = std::min(first + count, (chunk + 1) * chunk_rows_) - row;
    const long address = chunk_address(chunk);
    if (address < 0) return false;  // never written: HDF5 gives the fill value
    const auto bytes = static_cast<std::size_t>(rows) * layout_.row_bytes;
    read_at(address + (row - chunk * chunk_rows_) * static_cast<long>(layout_.row_bytes), bytes, row, rows, out);
    out += bytes;
    row += rows;
  }
  return true;
}

long Hdf5Rows::chunk_address([[maybe_unused]] long chunk) const {
#if H5_VERSION_GE(1, 10, 5)
  const Hdf5Session session;
  std::vector<hsize_t> offset(extents_.size(), 0);
  offset[0] = static_cast<hsize_t>(chunk) * static_cast<hsize_t>(chunk_rows_);
  unsigned mask = 0;
  haddr_t address = HADDR_UNDEF;
  hsize_t bytes = 0;
  HALOGRAD_HDF5(H5Dget_chunk_info_by_coord(dataset_, offset.data(), &mask, &address, &bytes), where_,
                "the chunk of images " + std::to_string(chunk * chunk_rows_) + " and after");
  return address == HADDR_UNDEF ? -1 : static_cast<long>(address);
#else
  return -1;
#endif
}

void Hdf5Rows::read_at(long address, std::size_t bytes, long first, long count, std::uint8_t* out) const {
  for (std::size_t done = 0; done < bytes;) {
    const ::ssize_t got =
        ::pread(file_, out + done, bytes - done, static_cast<::off_t>(address) + static_cast<::off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    HALOGRAD_REQUIRE(got > 0, where_, ": cannot read images ", first, " to ", first + count - 1, " at offset ", address,
                     ": ", got == 0 ? SystemReason{"the file ends before them"} : system_reason());
    done += static_cast<std::size_t>(got);
  }
}

void Hdf5Rows::read_through_hdf5(long first, long count, std::uint8_t* out) const {
  // Chunk by chunk, so that what is said of a damaged one names its images.
  for (long row = first; row < first + count;) {
    const long end = chunk_rows_ == 0 ? first + count : std::min(first + count, (row / chunk_rows_ + 1) * chunk_rows_);
    read_piece(row, end - row, part_, out);
    out += static_cast<std::size_t>(end - row) * layout_.row_bytes;
    row = end;
  }
}

void Hdf5Rows::read_piece(long first, long count, Hdf5Box part, std::uint8_t* out) const {
  const Hdf5Session session;
  part.start.insert(part.start.begin(), static_cast<hsize_t>(first));
  part.count.insert(part.count.begin(), static_cast<hsize_t>(count));
  read_box(dataset_, memory_type_, part, out,
           "cannot read images " + std::to_string(first) + " to " + std::to_string(first + count - 1), where_);
}

std::string Hdf5Rows::name() const {
  const bool whole = std::equal(part_.count.begin(), part_.count.end(), extents_.begin() + 1);
  return fs::absolute(path_).lexically_normal().string() + ":" + name_ +
         (whole ? "" : ", " + listed(part_.count) + " from " + listed(part_.start));
}

std::string Hdf5Rows::identity() const {
  struct stat status {};
  HALOGRAD_REQUIRE(::stat(path_.c_str(), &status) == 0, path_.string(),
                   ": its state cannot be read: ", system_reason());
  return name() + "\n" + std::to_string(status.st_size) + " bytes, changed at " +
         std::to_string(status.st_mtim.tv_sec) + "." + std::to_string(status.st_mtim.tv_nsec) + ", inode " +
         std::to_string(status.st_ino) + "\n" + std::to_string(layout_.rows) + " rows of " +
         std::to_string(layout_.row_bytes) + " bytes in blocks of " + std::to_string(layout_.block_rows) + "\n";
}

}  // namespace halograd
