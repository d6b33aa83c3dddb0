#include "hdf5/format.hpp"

#include "hdf5/handles.hpp"
#include "kernels/error.hpp"

namespace halograd {

std::string read_format(const std::string& path) {
  const auto lock = hdf5_session();
  // as beside a writer: a metrics file may be in use
  const Hdf5File file = open_hdf5(path, H5F_ACC_RDONLY | H5F_ACC_SWMR_READ);
  HALOGRAD_REQUIRE(has_attribute(file, "format", path), path,
                   ": an HDF5 file, but none of halograd: its root has no attribute 'format'");
  return read_string_attribute(file, "format", path);
}

}  // namespace halograd
