#include "data/cut_dataset.hpp"

#include <utility>
#include <vector>

namespace halograd {
namespace {

/// The box of each of `count` images with `values` values per pixel.
template <class T>
void cut_each(const T* images, std::size_t count, const ImageShape& shape, long values, const Box& box, T* out) {
  for (std::size_t n = 0; n < count; ++n)
    out = cut(images + static_cast<long>(n) * shape.pixels() * values, shape, values, box, out);
}

class CutDataset final : public Dataset {
 public:
  CutDataset(std::unique_ptr<Dataset> whole, const PartOf& part)
      : whole_(std::move(whole)), shape_(whole_->shape()), box_(part(shape_)) {}

  [[nodiscard]] long size() const override { return whole_->size(); }
  [[nodiscard]] ImageShape shape() const override { return part_of(shape_, box_); }
  [[nodiscard]] ImageShape whole_shape() const override { return shape_; }
  [[nodiscard]] int classes() const override { return whole_->classes(); }
  [[nodiscard]] long labels_per_image() const override {
    return by_pixel() ? box_.pixels() : whole_->labels_per_image();
  }
  [[nodiscard]] long whole_labels_per_image() const override { return whole_->labels_per_image(); }
  [[nodiscard]] int target_values() const override { return whole_->target_values(); }

  void read(std::span<const long> indices, float* images, std::int32_t* labels) const override {
    std::vector<float> whole(indices.size() * static_cast<std::size_t>(shape_.values()));
    const bool classes = target_values() == 0, cuts_labels = classes && by_pixel();
    std::vector<std::int32_t> whole_labels(
        cuts_labels ? indices.size() * static_cast<std::size_t>(whole_->labels_per_image()) : 0);
    whole_->read(indices, whole.data(), cuts_labels ? whole_labels.data() : labels);
    cut_each(whole.data(), indices.size(), shape_, shape_.channels, box_, images);
    if (cuts_labels) cut_each(whole_labels.data(), indices.size(), shape_, 1, box_, labels);
  }

  void read_targets(std::span<const long> indices, float* targets) const override {
    if (!by_pixel()) return whole_->read_targets(indices, targets);
    std::vector<float> whole(indices.size() * static_cast<std::size_t>(whole_->labels_per_image() * target_values()));
    whole_->read_targets(indices, whole.data());
    cut_each(whole.data(), indices.size(), shape_, target_values(), box_, targets);
  }

  [[nodiscard]] bool in_memory() const override { return whole_->in_memory(); }
  [[nodiscard]] long block_images() const override { return whole_->block_images(); }
  void expect(std::span<const long> order) const override { whole_->expect(order); }

 private:
  [[nodiscard]] bool by_pixel() const { return whole_->labels_per_image() > 1; }

  std::unique_ptr<Dataset> whole_;
  ImageShape shape_;
  Box box_;
};

}  // namespace

std::unique_ptr<Dataset> cut_dataset(std::unique_ptr<Dataset> whole, const PartOf& part) {
  return std::make_unique<CutDataset>(std::move(whole), part);
}

}  // namespace halograd
