#include "io/origin_attributes.hpp"

#include "hdf5/objects.hpp"

namespace halograd {

void write_origin(const Hdf5File& file, const char* format, std::int64_t version, const ModelOrigin& origin,
                  const std::string& path) {
  write_attribute(file, "format", std::string(format), path);
  write_attribute(file, "format_version", version, path);
  write_attribute(file, "checkpoint", origin.checkpoint, path);
  write_attribute(file, "replica", origin.replica, path);
  write_attribute(file, "network", origin.network, path);
  write_attribute(file, "step", origin.step, path);
  write_attribute(file, "epoch", origin.epoch, path);
  write_attribute(file, "data", origin.data, path);
  write_attribute(file, "versions", origin.versions, path);
}

}  // namespace halograd
