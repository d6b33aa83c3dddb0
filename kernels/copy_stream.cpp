#include "kernels/copy_stream.hpp"

#include <cstring>

#include "kernels/accelerator_runtime.hpp"

namespace halograd {

#if defined(HALOGRAD_RUNTIME)

struct CopyStream::Stream {
  HALOGRAD_RUNTIME(Stream_t) handle = nullptr;
};

CopyStream::CopyStream() : stream_(std::make_unique<Stream>()) {
  require_success(HALOGRAD_RUNTIME(StreamCreateWithFlags)(&stream_->handle, HALOGRAD_RUNTIME(StreamNonBlocking)),
                  "a stream for copies");
}

CopyStream::~CopyStream() {
  static_cast<void>(HALOGRAD_RUNTIME(StreamSynchronize)(stream_->handle));
  static_cast<void>(HALOGRAD_RUNTIME(StreamDestroy)(stream_->handle));
}

void CopyStream::copy(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  require_success(HALOGRAD_RUNTIME(MemcpyAsync)(to, from, bytes, HALOGRAD_RUNTIME(MemcpyHostToDevice), stream_->handle),
                  "a copy to the device");
}

void CopyStream::wait() {
  require_success(HALOGRAD_RUNTIME(StreamSynchronize)(stream_->handle), "copies to the device");
}

PinnedRange::PinnedRange(void* begin, std::size_t bytes) {
  if (bytes == 0) return;
  if (HALOGRAD_RUNTIME(HostRegister)(begin, bytes, HALOGRAD_RUNTIME(HostRegisterDefault)) ==
      HALOGRAD_RUNTIME(Success)) {
    begin_ = begin;
  } else {
    static_cast<void>(HALOGRAD_RUNTIME(GetLastError)());  // or Kokkos finds it and takes it for its own
  }
}

PinnedRange::~PinnedRange() {
  if (begin_ != nullptr) static_cast<void>(HALOGRAD_RUNTIME(HostUnregister)(begin_));
}

#else

struct CopyStream::Stream {};

CopyStream::CopyStream() = default;
CopyStream::~CopyStream() = default;

void CopyStream::copy(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

void CopyStream::wait() {}

PinnedRange::PinnedRange(void* /*begin*/, std::size_t /*bytes*/) {}
PinnedRange::~PinnedRange() = default;

#endif

}  // namespace halograd
