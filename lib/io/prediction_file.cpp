#include "io/prediction_file.hpp"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <limits>
#include <numeric>

#include "hdf5/files.hpp"
#include "hdf5/objects.hpp"
#include "io/formats.hpp"
#include "io/origin_attributes.hpp"
#include "kernels/error.hpp"
#include "support/text.hpp"

namespace halograd {
namespace {

/// Bytes of a dataset of these extents.
template <class Extents>
std::size_t bytes_of(const Extents& extents, std::size_t value_bytes) {
  return std::accumulate(extents.begin(), extents.end(), value_bytes, std::multiplies<>());
}

/// Writes a box in halves until MPI-IO, which counts the bytes of a transfer in int, takes them.
void write_pieces(const Hdf5Dataset& dataset, hid_t type, const Hdf5Box& box, const std::byte* values,
                  const std::string& path) {
  const std::size_t bytes = bytes_of(box.count, H5Tget_size(type));
  if (bytes <= std::size_t{std::numeric_limits<std::int32_t>::max()}) {
    write_box(dataset, type, box, values, "predictions", path);
    return;
  }
  const auto axis =
      std::find_if(box.count.begin(), box.count.end(), [](hsize_t count) { return count > 1; }) - box.count.begin();
  Hdf5Box before = box, after = box;
  before.count[axis] /= 2;
  after.start[axis] += before.count[axis];
  after.count[axis] -= before.count[axis];
  write_pieces(dataset, type, before, values, path);
  write_pieces(dataset, type, after, values + bytes_of(before.count, H5Tget_size(type)), path);
}

/// A field of a CSV file (RFC 4180).
std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char each : text) quoted += each == '"' ? "\"\"" : std::string(1, each);
  return quoted + "\"";
}

void write_table(const std::string& predictions, const std::string& path, int top,
                 const std::vector<std::string>& names) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  HALOGRAD_REQUIRE(out.is_open(), path, ": cannot be opened for writing");
  const Hdf5Session session;
  const Hdf5File file = open_hdf5(predictions, H5F_ACC_RDONLY);
  const Hdf5Dataset dataset = open_hdf5_dataset(file, "scores", predictions);
  const std::vector<hsize_t> extents = dataset_extents(dataset, "scores", predictions);
  const std::size_t images = extents[0], classes = extents[1];
  const std::size_t at_once = std::max<std::size_t>(1, mebibyte / classes);
  out << "image";
  for (int i = 1; i <= top; ++i) out << ",class" << i << ",score" << i;
  out << "\n";
  std::vector<float> scores(at_once * classes);
  std::vector<std::size_t> order(classes);
  for (std::size_t image = 0; image < images; ++image) {
    const std::size_t place = image % at_once;
    if (place == 0) {
      const Hdf5Box box{{image, 0}, {std::min(at_once, images - image), classes}};
      read_box(dataset, H5T_NATIVE_FLOAT, box, scores.data(), "scores", predictions);
    }
    const float* row = scores.data() + place * classes;
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::partial_sort(order.begin(), order.begin() + top, order.end(),
                      [row](std::size_t a, std::size_t b) { return row[a] > row[b] || (row[a] == row[b] && a < b); });
    out << (names.empty() ? std::to_string(image) : csv_field(names[image]));
    for (int i = 0; i < top; ++i) {
      const std::size_t best = order[static_cast<std::size_t>(i)];
      out << "," << best << "," << format("%.9g", static_cast<double>(row[best]));
    }
    out << "\n";
  }
  out.close();
  HALOGRAD_REQUIRE(out.good(), path, ": cannot be written (is the disk full?)");
}

}  // namespace

struct PredictionFile::Handles {
  Hdf5File file;
  Hdf5Dataset predictions, classes;

  /// Negative where it failed.
  herr_t close() {
    predictions.close();
    classes.close();
    return file.close();
  }
};

PredictionFile::PredictionFile(const Communicator& comm, std::string path, PredictionHeader header)
    : comm_(comm),
      path_(std::move(path)),
      partial_(path_ + ".partial"),
      header_(std::move(header)),
      handles_(std::make_unique<Handles>()) {
  const Hdf5Session session;
  // As with checkpoints, rank 0 makes all of the file, so that all ranks then write values alone.
  try {
    comm_.together([&] {
      if (comm_.rank() == 0) create();
    });
    comm_.together([&] { handles_->file = open_hdf5_together(comm_, partial_, H5F_ACC_RDWR); });
    comm_.together([&] {
      handles_->predictions = open_hdf5_dataset(handles_->file, header_.dataset, partial_);
      if (header_.classes) handles_->classes = open_hdf5_dataset(handles_->file, "classes", partial_);
    });
  } catch (const Error&) {
    if (comm_.rank() == 0) ::unlink(partial_.c_str());
    throw;
  }
}

PredictionFile::~PredictionFile() {
  if (published_) return;
  if (unwinding_.now()) {  // the others do not come to close it
    [[maybe_unused]] const Handles* const left_open = handles_.release();
    return;
  }
  handles_->close();
  if (comm_.rank() == 0) ::unlink(partial_.c_str());
}

void PredictionFile::create() const {
  const std::string& partial = partial_;
  ::unlink(partial.c_str());  // of a call that was killed
  const std::vector<std::uint64_t>& extents = header_.extents;
  const std::vector<hsize_t> all(extents.begin(), extents.end()), labels(extents.begin(), extents.end() - 1);
  std::size_t bytes = 4 * mebibyte + bytes_of(extents, sizeof(float));
  if (header_.classes) bytes += bytes_of(labels, sizeof(std::int32_t));
  for (const std::string& name : header_.names) bytes += 32 + name.size();
  Hdf5File file = create_hdf5(partial, bytes);
  write_origin(file, predictions_format, predictions_format_version, header_, partial);
  write_attribute(file, "loss", header_.loss, partial);
  DatasetStorage room;
  room.reserve = true;
  create_dataset(file, header_.dataset, H5T_IEEE_F32LE, all, partial, room);
  if (header_.classes) create_dataset(file, "classes", H5T_STD_I32LE, labels, partial, room);
  if (!header_.names.empty()) write_strings(file, "names", header_.names, partial);
  HALOGRAD_HDF5(file.close(), partial, "file");
}

void PredictionFile::write(long first, long count, std::span<const float> predictions,
                           std::span<const std::int32_t> classes) const {
  std::vector<std::uint64_t> begin(header_.extents.size() - 1),
      counts(header_.extents.begin(), header_.extents.end() - 1);
  begin[0] = static_cast<std::uint64_t>(first);
  counts[0] = static_cast<std::uint64_t>(count);
  write_labels(begin, counts, predictions, classes);
}

void PredictionFile::write_part(long image, const Box& part, std::span<const float> predictions,
                                std::span<const std::int32_t> classes) const {
  std::vector<std::uint64_t> begin{static_cast<std::uint64_t>(image)}, counts{1};
  const auto axes = static_cast<int>(header_.extents.size()) - 2;
  for (int axis = 3 - axes; axis < 3; ++axis) {
    begin.push_back(static_cast<std::uint64_t>(part.begin[axis]));
    counts.push_back(static_cast<std::uint64_t>(part.extents()[axis]));
  }
  write_labels(begin, counts, predictions, classes);
}

void PredictionFile::write_labels(const std::vector<std::uint64_t>& first, const std::vector<std::uint64_t>& count,
                                  std::span<const float> predictions, std::span<const std::int32_t> classes) const {
  const Hdf5Session session;
  Hdf5Box box{{first.begin(), first.end()}, {count.begin(), count.end()}};
  if (header_.classes) write_pieces(handles_->classes, H5T_NATIVE_INT32, box, std::as_bytes(classes).data(), partial_);
  box.start.push_back(0);
  box.count.push_back(header_.extents.back());
  write_pieces(handles_->predictions, H5T_NATIVE_FLOAT, box, std::as_bytes(predictions).data(), partial_);
}

void PredictionFile::publish() {
  {
    const Hdf5Session session;
    comm_.together([&] { HALOGRAD_HDF5(H5Fflush(handles_->file, H5F_SCOPE_GLOBAL), partial_, "file"); });
    comm_.together([&] { HALOGRAD_HDF5(handles_->close(), partial_, "file"); });
  }
  comm_.together([&] {
    if (comm_.rank() == 0) publish_file(partial_, path_);
  });
  published_ = true;
}

void write_top_classes(const std::string& predictions, const std::string& csv, int top,
                       const std::vector<std::string>& names) {
  const std::string partial = csv + ".partial";
  try {
    write_table(predictions, partial, top, names);
    publish_file(partial, csv);
  } catch (const Error&) {
    ::unlink(partial.c_str());
    throw;
  }
}

}  // namespace halograd
