#include "convert/image_folder.hpp"

#include <algorithm>

#include "convert/image_file.hpp"
#include "data/byte_dataset.hpp"
#include "kernels/error.hpp"

namespace halograd {

namespace fs = std::filesystem;

ImageFolder::ImageFolder(const fs::path& folder, int channels, int height, int width)
    : folder_(folder), stretched_(height > 0) {
  HALOGRAD_REQUIRE(channels == 1 || channels == 3, folder.string(),
                   ": image files have 1 channel or 3, but the network's images have ", channels);
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file() && is_image_name(entry.path()))
      names_.push_back(entry.path().lexically_relative(folder).string());
  }
  HALOGRAD_REQUIRE(!names_.empty(), folder.string(),
                   ": holds no images (*.png, *.jpg, *.jpeg), and no IDX or CIFAR files");
  std::sort(names_.begin(), names_.end());
  if (!stretched_) {
    const Image first = read_image(folder_ / names_.front());
    height = first.height;
    width = first.width;
  }
  shape_ = {height, width, channels};
}

void ImageFolder::read(std::span<const long> indices, float* images, std::int32_t* /*labels*/) const {
  for (const long index : indices) {
    require_index(index, size());
    const fs::path path = folder_ / names_[static_cast<std::size_t>(index)];
    Image image = with_channels(read_image(path), shape_.channels);
    HALOGRAD_REQUIRE(stretched_ || (image.height == shape_.height && image.width == shape_.width), path.string(),
                     ": is ", image.height, "x", image.width, ", but the first image, ", names_.front(), ", is ",
                     shape_.height, "x", shape_.width, "; give --size HEIGHTxWIDTH to resize all images");
    image = resized(image, shape_.height, shape_.width);
    bytes_to_floats(image.values.data(), shape_.values(), 255, images);
    images += shape_.values();
  }
}

}  // namespace halograd
