#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "config/table_reader.hpp"
#include "run/keys.hpp"
#include "run/write.hpp"

namespace halograd::reference_test {
namespace {

/// What the written text gives for a key after a table's header.
std::string written_value(const std::string& text, const std::string& header, const std::string& key) {
  const auto start = text.find("\n" + key + " = ", header.empty() ? 0 : text.find("\n" + header + "\n"));
  const auto value = text.find(" = ", start) + 3;
  return text.substr(value, std::min(text.find("  # ", value), text.find('\n', value)) - value);
}

/// A visitor that makes the row of docs/run-files.md for each key: key, type, default, what is allowed, meaning.
class RowWriter {
 public:
  /// `prefix` is put before the names of tables: "comm."
  RowWriter(std::string text, std::string header, std::string prefix = "")
      : text_(std::move(text)), header_(std::move(header)), prefix_(std::move(prefix)) {}

  template <class Member>
  void operator()(const char* key, Member& member, const std::string& meaning, const Allowed& allowed) {
    std::string standard = "`";
    standard.append(written_value(text_, header_, key)).append("`");
    if (allowed.required) standard = "required";
    auto limits = to_string(allowed);
    std::replace(limits.begin(), limits.end(), '"', '`');
    rows.push_back("| `" + std::string(key) + "` | " + type_name(member) + " | " + standard + " | " + limits + " | " +
                   meaning + " |");
  }
  template <class Struct>
  void section(const char* key, Struct& member, const char* meaning) {
    const std::string header = "[" + prefix_ + key + "]";
    rows.push_back("## " + header);
    rows.push_back(meaning);
    RowWriter writer(text_, header, prefix_ + key + ".");
    visit(writer, member);
    rows.insert(rows.end(), writer.rows.begin(), writer.rows.end());
  }
  void list(const char*, std::vector<LayerConfig>&, const char*) {}

  std::vector<std::string> rows;

 private:
  std::string text_, header_, prefix_;
};

std::vector<std::string> expected_rows() {
  RunConfig config;
  config.network.layers.resize(1);
  LayerConfig& layer = config.network.layers[0];
  RowWriter writer("\n" + to_toml(config), "");
  visit(writer, config);
  const std::vector<std::string> types = names_of(layer_types());
  for (const std::string& type : types) {
    layer.type = type;
    RowWriter layer_writer("\n" + to_toml(config), "[[network.layer]]");
    visit(layer_writer, layer);
    writer.rows.push_back(std::string("### ").append(type));
    // What every layer takes stands once, under the first type.
    const auto skipped = static_cast<std::ptrdiff_t>(type == types.front() ? 0 : 3);
    writer.rows.insert(writer.rows.end(), layer_writer.rows.begin() + skipped, layer_writer.rows.end());
  }
  const auto first = std::find(writer.rows.begin(), writer.rows.end(), "### " + types.front());
  std::rotate(first, first + 1, first + 4);  // the keys of every layer, then the heading of the first type
  writer.rows.insert(first, "## [[network.layer]]");
  return writer.rows;
}

std::vector<std::string> lines_of(const std::string& document) {
  std::ifstream file(HALOGRAD_SOURCE_DIR "/" + document);
  EXPECT_TRUE(file) << document << " cannot be opened";
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

TEST(Reference, HasEveryKeyAndNoOther) {
  const std::vector<std::string> lines = lines_of("docs/run-files.md");

  const auto expected = expected_rows();
  auto at = lines.begin();
  for (const auto& row : expected) {
    const auto found = std::find(at, lines.end(), row);
    EXPECT_NE(found, lines.end()) << "missing, or out of order: " << row;
    if (found != lines.end()) at = found + 1;
  }
  for (const auto& line : lines) {
    if (line.rfind("| `", 0) != 0) continue;
    EXPECT_NE(std::find(expected.begin(), expected.end(), line), expected.end()) << "describes no key: " << line;
  }
}

TEST(Reference, LayersAreDescribedAsInTheirRows) {
  std::ifstream file(HALOGRAD_SOURCE_DIR "/docs/run-files.md");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  for (const LayerType& type : layer_types()) {
    const std::string wanted = std::string("\n### ") + type.name + "\n\n" + *type.meaning;
    EXPECT_NE(text.find(wanted), std::string::npos) << "not in docs/run-files.md:" << wanted;
  }
}

TEST(Reference, NetworksAreDescribedAsInTheirRows) {
  const std::vector<std::string> lines = lines_of("docs/run-files.md");
  for (const ReferenceNetwork& network : reference_networks()) {
    const std::string wanted =
        std::string("| ") + network.name + " | " + to_string(network.input) + " | " + *network.meaning + " |";
    EXPECT_NE(std::find(lines.begin(), lines.end(), wanted), lines.end()) << "not in docs/run-files.md: " << wanted;
  }
}

/// The table "One TOML file describes a run" names all that there is, but for networks and topologies, too many for it.
TEST(Reference, ReadmeNamesEveryChoice) {
  const std::vector<std::string> lines = lines_of("README.md");
  const auto names_all = [&](const std::string& key, const std::vector<std::string>& names) {
    const auto about = [&](const std::string& line) { return line.find("| `" + key + "` |") != std::string::npos; };
    const auto line = std::find_if(lines.begin(), lines.end(), about);
    ASSERT_NE(line, lines.end()) << key;
    for (const std::string& name : names) {
      EXPECT_NE(line->find("`" + name + "`"), std::string::npos) << key << " may be " << name;
    }
    const auto others = std::count(line->begin(), line->end(), '`') / 2 - 1 - static_cast<long>(names.size());
    EXPECT_EQ(others, 0) << *line;
  };
  names_all("data.format", names_of(dataset_formats()));
  names_all("loss.name", names_of(losses()));
  names_all("averager.name", names_of(averagers()));
  names_all("optimizer.name", names_of(optimizers()));
}

TEST(Reference, LayersTakeTheKeysOfTheirRows) {
  for (const LayerType& type : layer_types()) {
    LayerConfig layer;
    layer.type = type.name;
    const std::vector<std::string> visited = keys_of(layer);
    EXPECT_EQ(visited.size(), 3 + type.needs->size() + type.takes->size()) << type.name << " has a key that is none";
  }
}

TEST(Reference, AlgorithmsHaveARowForEachAveragerTopologyAndCodec) {
  const std::vector<std::string> lines = lines_of("docs/algorithms.md");
  std::vector<std::string> names = names_of(averagers());
  for (const TopologyRow& row : topologies()) {
    if (!row.from_file) names.emplace_back(row.name);
  }
  for (const CodecRow& row : codecs()) names.emplace_back(row.name);
  for (const std::string& name : names) {
    const std::string start = "| `" + name + "`";
    const auto describes = [&](const std::string& line) { return line.rfind(start, 0) == 0; };
    EXPECT_TRUE(std::any_of(lines.begin(), lines.end(), describes)) << "no row of a table begins with " << start;
  }
}

}  // namespace
}  // namespace halograd::reference_test
