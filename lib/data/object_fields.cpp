#include "data/object_fields.hpp"

#include <algorithm>
#include <utility>

#include "kernels/error.hpp"
#include "kernels/random.hpp"

namespace halograd {
namespace {

constexpr int most_draws = 32;

/// How far a fraction lies outside a range; 0 inside.
double distance(double filled, std::size_t range) {
  const double least = range == 0 ? 0 : ObjectFields::bounds[range - 1];
  const double most = range == ObjectFields::bounds.size() ? 1 : ObjectFields::bounds[range];
  return std::max({least - filled, filled - most, 0.0});
}

}  // namespace

std::size_t ObjectFields::range_of(double filled) {
  return static_cast<std::size_t>(std::upper_bound(bounds.begin(), bounds.end(), filled) - bounds.begin());
}

ObjectFields::ObjectFields(const Shape& volume, const std::array<int, 3>& field, std::vector<std::uint32_t> objects,
                           double background, std::uint64_t key, const std::string& where)
    : volume_(volume), field_(field), objects_(std::move(objects)), background_(background), key_(key) {
  const Shape whole(field, volume.channels, volume.dimensions);
  const std::array<int, 3> centres = possible();
  HALOGRAD_REQUIRE(*std::min_element(centres.begin(), centres.end()) > 0, where, ": fields of ", to_string(whole),
                   " (data.objects_field) do not fit into volumes of ", to_string(volume));
  const long volumes = static_cast<long>(objects_.size()) / volume.pixels();
  centres_.reserve(static_cast<std::size_t>(volumes * centres[0] * centres[1]));
  std::uint64_t count = 0;
  for (long number = 0; number < volumes; ++number) {
    for (int d = 0; d < centres[0]; ++d) {
      for (int h = 0; h < centres[1]; ++h) {
        const std::uint32_t* first = row(number, d + field[0] / 2, h + field[1] / 2, field[2] / 2);
        count += static_cast<std::uint64_t>(centres[2] - std::count(first, first + centres[2], 0U));
        centres_.push_back(count);
      }
    }
  }
  HALOGRAD_REQUIRE(count > 0, where, ": has no object that a field of ", to_string(whole),
                   " (data.objects_field) can be centred on, expected voxels above 0 at least half a field from the "
                   "edges of their volume");
}

const std::uint32_t* ObjectFields::row(long volume, int d, int h, int w) const {
  return objects_.data() + ((volume * volume_.depth + d) * volume_.height + h) * volume_.width + w;
}

/// Places of a field along each axis.
std::array<int, 3> ObjectFields::possible() const {
  const std::array<int, 3> whole = volume_.extents();
  return {whole[0] - field_[0] + 1, whole[1] - field_[1] + 1, whole[2] - field_[2] + 1};
}

/// The field around a centre, by its number among all.
ObjectField ObjectFields::around(std::uint64_t centre) const {
  const auto at = std::upper_bound(centres_.begin(), centres_.end(), centre);
  const long number = at - centres_.begin();
  std::uint64_t before = centre - (number == 0 ? 0 : *std::prev(at));
  const std::array<int, 3> places = possible();
  const int h = static_cast<int>(number % places[1]), d = static_cast<int>(number / places[1] % places[0]);
  ObjectField field;
  field.volume = number / places[1] / places[0];
  const std::uint32_t* const first = row(field.volume, d + field_[0] / 2, h + field_[1] / 2, field_[2] / 2);
  int w = 0;
  while (first[w] == 0 || before-- > 0) ++w;
  field.object = first[w];
  field.box = {{d, h, w}, {d + field_[0], h + field_[1], w + field_[2]}};
  long voxels = 0;
  for_each_row(volume_, field.box, [&](long from, long /*to*/, long pixels) {
    const std::uint32_t* const voxel = objects_.data() + field.volume * volume_.pixels() + from;
    voxels += std::count(voxel, voxel + pixels, field.object);
  });
  field.filled = static_cast<double>(voxels) / static_cast<double>(field.box.pixels());
  return field;
}

/// A field at a random place whose central voxel belongs to no object; nothing after a number of draws.
std::optional<ObjectField> ObjectFields::on_no_object(std::uint64_t key) const {
  const std::array<int, 3> places = possible();
  const auto volumes = static_cast<std::uint64_t>(static_cast<long>(objects_.size()) / volume_.pixels());
  for (std::uint64_t draw = 1; draw <= most_draws; ++draw) {
    const std::uint64_t at = random_bits(key, draw);
    ObjectField field;
    field.volume = static_cast<long>(random_bits(at, 0) % volumes);
    for (int axis = 0; axis < 3; ++axis) {
      const auto among = static_cast<std::uint64_t>(places[axis]);
      const std::uint64_t place = random_bits(at, static_cast<std::uint64_t>(axis) + 1) % among;
      field.box.begin[axis] = static_cast<int>(place);
      field.box.end[axis] = field.box.begin[axis] + field_[axis];
    }
    const auto [d, h, w] = field.box.begin;
    if (row(field.volume, d + field_[0] / 2, h + field_[1] / 2, w + field_[2] / 2)[0] == 0) return field;
  }
  return std::nullopt;
}

ObjectField ObjectFields::draw(long index) const {
  const std::uint64_t key = random_bits(key_, static_cast<std::uint64_t>(index));
  const std::uint64_t background_key = random_bits(key, most_draws + 1);
  if (random_uniform(background_key, 0) < background_) {
    if (const std::optional<ObjectField> field = on_no_object(background_key)) return *field;
  }
  const std::size_t range = random_bits(key, 0) % ranges;
  ObjectField nearest;
  for (int draw = 1; draw <= most_draws; ++draw) {
    const ObjectField field = around(random_bits(key, static_cast<std::uint64_t>(draw)) % centres_.back());
    if (range_of(field.filled) == range) return field;
    if (draw == 1 || distance(field.filled, range) < distance(nearest.filled, range)) nearest = field;
  }
  return nearest;
}

void ObjectFields::label(const ObjectField& field, std::int32_t* labels) const {
  for_each_row(volume_, field.box, [&](long from, long to, long pixels) {
    const std::uint32_t* const voxel = objects_.data() + field.volume * volume_.pixels() + from;
    std::transform(voxel, voxel + pixels, labels + to,
                   [&field](std::uint32_t other) { return field.object != 0 && other == field.object ? 1 : 0; });
  });
}

}  // namespace halograd
