#pragma once

#include <hdf5.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hdf5/lock.hpp"

namespace halograd {

/// Holds the process's HDF5 lock, with HDF5's own printing of errors switched off. Taken before any of the calls below.
std::unique_lock<std::recursive_mutex> hdf5_session();

/// Throws Error: file, object, the HDF5 function (the text before the bracket of `call`) and HDF5's innermost reason.
[[noreturn]] void fail_hdf5(std::string_view file, std::string_view object, std::string_view call);

template <class Result>
Result check_hdf5(Result result, std::string_view file, std::string_view object, std::string_view call) {
  if (result < 0) fail_hdf5(file, object, call);
  return result;
}

/// An HDF5 identifier that is closed with `Close` when it goes out of scope.
template <herr_t (*Close)(hid_t)>
class Hdf5Handle {
 public:
  Hdf5Handle() = default;
  explicit Hdf5Handle(hid_t id) : id_(id) {}
  Hdf5Handle(Hdf5Handle&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)) {}
  Hdf5Handle& operator=(Hdf5Handle&& other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }
  ~Hdf5Handle() { close(); }

  operator hid_t() const { return id_; }

  /// Closes now, for those who must know whether it went well (< 0: it did not).
  herr_t close() {
    if (id_ < 0) return 0;
    const auto lock = hdf5_lock();
    const hid_t id = std::exchange(id_, H5I_INVALID_HID);
    return H5Iis_valid(id) > 0 ? Close(id) : 0;  // MPI_Finalize closes what is open, before an object that outlives it
  }

 private:
  hid_t id_ = H5I_INVALID_HID;
};

using Hdf5File = Hdf5Handle<H5Fclose>;
using Hdf5Group = Hdf5Handle<H5Gclose>;
using Hdf5Dataset = Hdf5Handle<H5Dclose>;
using Hdf5Space = Hdf5Handle<H5Sclose>;
using Hdf5PropertyList = Hdf5Handle<H5Pclose>;
using Hdf5Attribute = Hdf5Handle<H5Aclose>;
using Hdf5Type = Hdf5Handle<H5Tclose>;

/// File-access properties for one process: a format that every HDF5 from `low` on can read, and file locks, where asked
/// for, as far as the file system has them.
Hdf5PropertyList serial_file_access(H5F_libver_t low, bool locked = true);

/// Opens an existing file with one process. Throws Error saying whether it is missing, no HDF5 file, or cut short.
Hdf5File open_hdf5(const std::string& path, unsigned flags);

inline constexpr std::size_t mebibyte = std::size_t{1} << 20;

/// A new file, opened by one process, with room for `bytes` reserved on the disk: HDF5 1.10 does not survive a close
/// that fails, so a full disk has to show before. Datasets of 1 MiB and more start at multiples of that, where file
/// systems have their stripes.
Hdf5File create_hdf5(const std::string& path, H5F_libver_t low, std::size_t bytes);

Hdf5Group open_group(hid_t parent, const std::string& path, const std::string& file);
Hdf5Dataset open_dataset(hid_t parent, const std::string& path, const std::string& file);
bool has_link(hid_t parent, const std::string& name, const std::string& file);
std::vector<std::string> link_names(
    const Hdf5Group& group,
    const std::string& file);  ///< in the order of creation where the file keeps it, else by name
std::vector<hsize_t> dataset_extents(const Hdf5Dataset& dataset, const std::string& object, const std::string& file);
Hdf5Space make_space(const std::vector<hsize_t>& extents);  ///< no extents: a scalar

void write_attribute(hid_t object, const std::string& name, const std::string& value, const std::string& file);
void write_attribute(hid_t object, const std::string& name, std::int64_t value, const std::string& file);
void write_attribute(hid_t object, const std::string& name, double value, const std::string& file);
void write_attribute(hid_t object, const std::string& name, const std::vector<std::uint32_t>& values,
                     const std::string& file);

bool has_attribute(hid_t object, const std::string& name, const std::string& file);
std::string read_string_attribute(hid_t object, const std::string& name, const std::string& file);
std::int64_t read_integer_attribute(hid_t object, const std::string& name, const std::string& file);
double read_number_attribute(hid_t object, const std::string& name, const std::string& file);
std::vector<std::uint32_t> read_checksums_attribute(hid_t object, const std::string& name, const std::string& file);

/// Throws Error unless the root attribute `format` says that this is a `format`.
void require_format_name(const Hdf5File& opened, const std::string& format, const std::string& file);

/// Throws Error unless the root attributes `format` and `format_version` say that this is a `format` of at most
/// `version`.
void require_format(const Hdf5File& opened, const std::string& format, std::int64_t version, const std::string& file);

}  // namespace halograd

/// The result of an HDF5 call; throws Error naming file, object and reason where it failed.
#define HALOGRAD_HDF5(call, file, object) ::halograd::check_hdf5((call), (file), (object), #call)
