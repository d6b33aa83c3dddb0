#pragma once

#include <hdf5.h>

#include <mutex>
#include <string>
#include <utility>

#include "hdf5/lock.hpp"

/// What the HDF5 reader's files share.
namespace halograd {

/// Holds HDF5's lock and keeps the library from printing: what it says goes into an Error instead.
class Hdf5Session {
 public:
  Hdf5Session() : lock_(hdf5_lock()) {
    H5Eget_auto2(H5E_DEFAULT, &function_, &data_);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }
  ~Hdf5Session() { H5Eset_auto2(H5E_DEFAULT, function_, data_); }
  Hdf5Session(const Hdf5Session&) = delete;
  Hdf5Session& operator=(const Hdf5Session&) = delete;

 private:
  std::unique_lock<std::recursive_mutex> lock_;
  H5E_auto2_t function_ = nullptr;
  void* data_ = nullptr;
};

/// The innermost entry of the library's error stack, which says most.
inline std::string hdf5_reason() {
  std::string text = "no reason given";
  const auto take_first = [](unsigned n, const H5E_error2_t* entry, void* out) -> herr_t {
    if (n == 0 && entry->desc != nullptr) *static_cast<std::string*>(out) = entry->desc;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_first, &text);
  return text;
}

/// An HDF5 identifier, closed with it.
class Hdf5Object {
 public:
  Hdf5Object(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  Hdf5Object(Hdf5Object&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)), close_(other.close_) {}
  Hdf5Object& operator=(Hdf5Object&&) = delete;
  ~Hdf5Object() {
    if (id_ < 0) return;
    const Hdf5Session session;
    close_(id_);
  }
  [[nodiscard]] hid_t id() const { return id_; }

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

}  // namespace halograd
