#pragma once

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace halograd {

/// Where kernels run: the default device of the Kokkos that halograd is built with.
using ExecutionSpace = Kokkos::DefaultExecutionSpace;
using MemorySpace = ExecutionSpace::memory_space;

/// Whether kernels run on the host's cores, on memory that MPI and HDF5 can use as it is.
constexpr bool runs_on_host = std::is_same_v<MemorySpace, Kokkos::HostSpace>;

/// A flat, owning buffer in device memory. LayoutRight everywhere, so that one layout serves every backend.
template <class T>
using Buffer = Kokkos::View<T*, Kokkos::LayoutRight, MemorySpace>;

/// A flat range that somebody else owns: what kernels take. Buffer and Kokkos::subview of one convert to it.
template <class T>
using Vector = Kokkos::View<T*, Kokkos::LayoutRight, MemorySpace, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;

/// A flat range in host memory that somebody else owns (MPI and HDF5 read and write these).
template <class T>
using HostVector = Kokkos::View<T*, Kokkos::LayoutRight, Kokkos::HostSpace, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;

/// Entries [begin, begin + length) of a flat range.
template <class View>
auto slice(const View& view, std::size_t begin, std::size_t length) {
  return Kokkos::View<typename View::value_type*, Kokkos::LayoutRight, typename View::memory_space,
                      Kokkos::MemoryTraits<Kokkos::Unmanaged>>(view.data() + begin, length);
}

/// A range of bytes as the values of type T that it holds.
template <class T>
Vector<T> values_of(const Vector<std::byte>& bytes) {
  return Vector<T>(reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T));
}
template <class T>
Vector<const T> values_of(const Vector<const std::byte>& bytes) {
  return Vector<const T>(reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T));
}

/// The bytes of a range of values.
template <class T>
Vector<const std::byte> bytes_of(const Vector<const T>& values) {
  return Vector<const std::byte>(reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(T));
}

/// `count` values of type T from byte `offset` of a range of bytes on.
template <class T>
Vector<T> values_at(const Vector<std::byte>& bytes, std::size_t offset, std::size_t count) {
  return Vector<T>(reinterpret_cast<T*>(bytes.data() + offset), count);
}

}  // namespace halograd
