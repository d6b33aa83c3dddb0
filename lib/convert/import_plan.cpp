#include "convert/import_plan.hpp"

#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>

#include "convert/image_file.hpp"
#include "data/sharding.hpp"
#include "kernels/error.hpp"

namespace halograd {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.empty() && name[0] != '.') entries.push_back(entry.path());
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

/// The images of a folder of class folders, each anywhere below its class folder.
void add_classes(const fs::path& folder, std::map<std::string, std::vector<fs::path>>& classes) {
  for (const fs::path& entry : entries_of(folder)) {
    if (!fs::is_directory(entry)) {
      HALOGRAD_REQUIRE(!is_image_name(entry), entry.string(), ": is an image outside a class folder; expected ",
                       folder.string(), "/<class>/", entry.filename().string());
      continue;
    }
    std::vector<fs::path> found;
    for (const fs::directory_entry& file : fs::recursive_directory_iterator(entry))
      if (file.is_regular_file() && is_image_name(file.path())) found.push_back(file.path());
    HALOGRAD_REQUIRE(!found.empty(), entry.string(),
                     ": is a class folder without images (*.png, *.jpg, *.jpeg); put images "
                     "into it or remove it");
    std::sort(found.begin(), found.end());
    std::vector<fs::path>& images = classes[entry.filename().string()];
    images.insert(images.end(), found.begin(), found.end());
  }
}

template <class Item>
void shuffle_items(std::vector<Item>& items, std::uint64_t seed, long stream) {
  const std::vector<long> order = epoch_permutation(static_cast<long>(items.size()), seed, stream);
  std::vector<Item> shuffled;
  shuffled.reserve(items.size());
  for (const long at : order) shuffled.push_back(std::move(items[static_cast<std::size_t>(at)]));
  items = std::move(shuffled);
}

void plan_folders(const ImportOptions& options, ImportPlan& plan) {
  std::map<std::string, std::vector<fs::path>> by_class[2];
  bool split = false;
  for (const std::string& source : options.sources) {
    const bool has_train = fs::is_directory(fs::path(source) / "train");
    const bool has_test = fs::is_directory(fs::path(source) / "test");
    HALOGRAD_REQUIRE(has_train == has_test, source, ": has a folder ", has_train ? "train" : "test",
                     " but none called ", has_train ? "test" : "train");
    HALOGRAD_REQUIRE(&source == &options.sources.front() || has_train == split, source,
                     has_train ? ": has train and test folders, but other sources do not"
                               : ": has no train and test folders, but other sources have them");
    split = has_train;
    add_classes(split ? fs::path(source) / "train" : fs::path(source), by_class[0]);
    if (split) add_classes(fs::path(source) / "test", by_class[1]);
  }
  HALOGRAD_REQUIRE(!split || options.test_fraction < 0, options.sources.front(),
                   ": has train and test folders; --test-fraction applies only to sources without them");
  HALOGRAD_REQUIRE(!by_class[0].empty(), options.sources.front(),
                   ": holds no class folders with images, and no IDX or CIFAR files");
  const double fraction = options.test_fraction < 0 ? 0.1 : options.test_fraction;
  std::map<std::string, int> labels;
  for (const auto& [name, files] : by_class[0]) {
    labels[name] = static_cast<int>(plan.class_names.size());
    plan.class_names.push_back(name);
  }
  for (const auto& [name, files] : by_class[1])
    HALOGRAD_REQUIRE(labels.count(name) > 0, files.front().parent_path().string(), ": class ", name,
                     " has images for testing but none for training");
  for (const auto& [name, files] : by_class[0]) {
    const int label = labels[name];
    std::vector<ImportItem> items;
    for (const fs::path& file : files) items.push_back({file, 0, label});
    if (!split) {
      shuffle_items(items, options.seed, 1L + label);
      const auto test = static_cast<std::ptrdiff_t>(std::lround(fraction * static_cast<double>(items.size())));
      plan.items[1].insert(plan.items[1].end(), items.begin(), items.begin() + test);
      items.erase(items.begin(), items.begin() + test);
    }
    plan.items[0].insert(plan.items[0].end(), items.begin(), items.end());
  }
  for (const auto& [name, files] : by_class[1])
    for (const fs::path& file : files) plan.items[1].push_back({file, 0, labels[name]});
}

void plan_other(const ImportOptions& options, const std::string& format, ImportPlan& plan) {
  HALOGRAD_REQUIRE(options.sources.size() == 1, options.sources.front(), ": holds ", format,
                   " files; such a source must be the only one");
  HALOGRAD_REQUIRE(options.test_fraction < 0, options.sources.front(), ": ", format,
                   " has a test set of its own; --test-fraction applies only to folders of images without one");
  plan.other.format = format;
  plan.other.path = options.sources.front();
  for (const Split split : {Split::train, Split::test}) {
    const auto set = open_dataset(plan.other, split, 1);
    std::vector<ImportItem>& items = plan.items[split == Split::train ? 0 : 1];
    for (long i = 0; i < set->size(); ++i) items.push_back({options.sources.front(), i, 0});
    for (int i = static_cast<int>(plan.class_names.size()); i < set->classes(); ++i)
      plan.class_names.push_back(std::to_string(i));
  }
}

/// Paths, sizes and times of all files in their order, and all that decides on the values, in a checksum.
std::string identity_of(const ImportOptions& options, const ImportPlan& plan) {
  uLong sum = crc32_z(0, nullptr, 0);
  const auto add = [&](const std::string& text) {
    sum = crc32_z(sum, reinterpret_cast<const Bytef*>(text.c_str()), text.size() + 1);
  };
  const auto add_file = [&](const fs::path& path) {
    add(fs::absolute(path).lexically_normal().string());
    add(std::to_string(fs::file_size(path)));
    add(std::to_string(fs::last_write_time(path).time_since_epoch().count()));
  };
  if (!plan.other.path.empty())
    for (const fs::path& entry : entries_of(plan.other.path))
      if (fs::is_regular_file(entry)) add_file(entry);
  for (const std::vector<ImportItem>& items : plan.items) {
    for (const ImportItem& item : items) {
      if (plan.other.path.empty()) add_file(item.path);
      add(std::to_string(item.label) + " " + std::to_string(item.index));
    }
  }
  std::ostringstream text;
  text << plan.items[0].size() << " and " << plan.items[1].size() << " images of " << plan.class_names.size()
       << " classes, size " << options.height << "x" << options.width << ", " << options.colour << ", seed "
       << options.seed << ", " << (options.skip_broken ? "skip" : "refuse") << ", checksum " << sum;
  return text.str();
}

}  // namespace

const std::vector<ImageColours>& image_colours() {
  static const std::vector<ImageColours> colours{{"auto", 0}, {"grey", 1}, {"rgb", 3}};
  return colours;
}

ImportPlan plan_import(const ImportOptions& options) {
  ImportPlan plan;
  for (const std::string& source : options.sources)
    HALOGRAD_REQUIRE(fs::is_directory(source), source, fs::exists(source) ? ": is not a folder" : ": no such folder");
  std::string format;
  for (const std::string& source : options.sources) {
    const DatasetFormat* const found = format.empty() ? format_found_at(source) : nullptr;
    if (found != nullptr) format = found->name;
  }
  format.empty() ? plan_folders(options, plan) : plan_other(options, format, plan);
  shuffle_items(plan.items[0], options.seed, 0);
  plan.identity = identity_of(options, plan);
  return plan;
}

}  // namespace halograd
