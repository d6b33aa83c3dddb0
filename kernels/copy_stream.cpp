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

namespace {

bool pin(void* begin, std::size_t bytes) {
  if (HALOGRAD_RUNTIME(HostRegister)(begin, bytes, HALOGRAD_RUNTIME(HostRegisterDefault)) ==
      HALOGRAD_RUNTIME(Success)) {
    return true;
  }
  static_cast<void>(HALOGRAD_RUNTIME(GetLastError)());  // or Kokkos finds it and takes it for its own
  return false;
}
void unpin(void* begin) {
  static_cast<void>(HALOGRAD_RUNTIME(HostUnregister)(begin));
}

}  // namespace

#else

struct CopyStream::Stream {};

CopyStream::CopyStream() = default;
CopyStream::~CopyStream() = default;

void CopyStream::copy(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

void CopyStream::wait() {}

namespace {

bool pin(void* /*begin*/, std::size_t /*bytes*/) {
  return false;
}
void unpin(void* /*begin*/) {}

}  // namespace

#endif

PinnedRange::PinnedRange(void* begin, std::size_t bytes) : begin_(bytes > 0 && pin(begin, bytes) ? begin : nullptr) {}

PinnedRange::~PinnedRange() {
  if (begin_ != nullptr) unpin(begin_);
}

}  // namespace halograd
