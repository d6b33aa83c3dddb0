#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/shape.hpp"

namespace halograd {

/// A box of a volume around a voxel of an object.
struct ObjectField {
  long volume = 0;
  Box box;
  std::uint32_t object = 0;  ///< of the box's central voxel, begin + extents / 2; 0: it belongs to none
  double filled = 0;         ///< the part of the box that belongs to it
};

/// Draws training examples of flood-filling networks (Januszewski et al., 2018): fields of fixed extents whose central
/// voxel belongs to an object, balanced by how much of the field this object fills. Uniform draws would give fields
/// that are filled by large objects almost always. A share of fields is centred on no object, so that a network learns
/// to leave the background alone, where the publication's tissue had next to none.
class ObjectFields {
 public:
  /// `objects` (volumes, volume.pixels()): each voxel's object, unique within a volume, or 0. `field`: along D, H, W,
  /// 1 where a volume has no such axis. `background`: the share of fields that are centred on no object. Throws Error
  /// that names `where` unless a field fits into a volume, around a voxel of an object.
  ObjectFields(const Shape& volume, const std::array<int, 3>& field, std::vector<std::uint32_t> objects,
               double background, std::uint64_t key, const std::string& where);

  /// Field number `index`, a function of the arguments alone. A range of filled fraction is drawn, each with the same
  /// probability, then centres, each possible one with the same probability, until a field's fraction lies in the
  /// range. After 32 draws the field is taken whose fraction is nearest to it. Where all of 32 draws for one on no
  /// object find objects, it is one of theirs.
  [[nodiscard]] ObjectField draw(long index) const;

  /// Each voxel of a field: 1 where it belongs to the field's object, else 0; labels (box.pixels()).
  void label(const ObjectField& field, std::int32_t* labels) const;

  /// Bounds of the ranges of filled fraction, those of the publication's code (google/ffn, compute_partitions.py). A
  /// range below the first and one from the last on make 13.
  static constexpr std::array<double, 12> bounds{0.025, 0.05, 0.075, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9};
  static constexpr std::size_t ranges = bounds.size() + 1;
  /// The range in which a fraction lies: 0..ranges-1.
  static std::size_t range_of(double filled);

 private:
  /// The row of voxels along W that begins at (volume, d, h, w).
  [[nodiscard]] const std::uint32_t* row(long volume, int d, int h, int w) const;
  [[nodiscard]] std::array<int, 3> possible() const;
  [[nodiscard]] ObjectField around(std::uint64_t centre) const;
  [[nodiscard]] std::optional<ObjectField> on_no_object(std::uint64_t key) const;

  Shape volume_;
  std::array<int, 3> field_;
  std::vector<std::uint32_t> objects_;
  double background_;
  std::uint64_t key_;
  std::vector<std::uint64_t> centres_;  ///< up to the end of each row that may hold some, over all volumes
};

}  // namespace halograd
