#include "convert/safetensors.hpp"

#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>

#include "kernels/error.hpp"
#include "support/json.hpp"

static_assert(std::endian::native == std::endian::little, "safetensors holds little-endian values");

namespace halograd {
namespace {

/// What the header says of one tensor.
struct Entry {
  std::string type;
  std::vector<long> shape, offsets;
};

std::vector<long> whole_numbers(const nlohmann::json& values, const std::string& where) {
  constexpr std::uint64_t most = 1'000'000'000'000'000'000;
  std::vector<long> numbers;
  HALOGRAD_REQUIRE(values.is_array(), where, " is ", values.dump(), ", expected a list of whole numbers");
  for (const nlohmann::json& value : values) {
    HALOGRAD_REQUIRE(value.is_number_unsigned() && value.get<std::uint64_t>() < most, where, " holds ", value.dump(),
                     ", expected whole numbers below 1e18");
    numbers.push_back(value.get<long>());
  }
  return numbers;
}

/// Reads the JSON of a header: an object with an object for each tensor, and one of facts, which are left out.
std::map<std::string, Entry> read_entries(const std::string& text, const std::string& path) {
  const std::string where = path + ": header of safetensors: ";
  std::set<std::string> names;
  const auto refuse_twice = [&](int depth, nlohmann::json::parse_event_t event, const nlohmann::json& parsed) {
    // what is wrong with an entry is shown, which takes a call for each level
    constexpr int most_levels = 8;
    HALOGRAD_REQUIRE(depth <= most_levels, where, "nested deeper than ", most_levels, " levels");
    if (depth != 1 || event != nlohmann::json::parse_event_t::key) return true;
    HALOGRAD_REQUIRE(names.insert(parsed.get<std::string>()).second, where, "a second tensor ", parsed.dump());
    return true;
  };
  nlohmann::json header;
  try {
    header = nlohmann::json::parse(text, refuse_twice);
  } catch (const nlohmann::json::parse_error& error) {
    fail(where, "no JSON at offset ", error.byte + 8, " of the file: ", error.what());
  } catch (const nlohmann::json::out_of_range& error) {
    fail(where, error.what());
  }
  HALOGRAD_REQUIRE(header.is_object(), where, "expected an object");
  std::map<std::string, Entry> entries;
  for (const auto& [name, tensor] : header.items()) {
    if (name == "__metadata__") continue;
    for (const char* key : {"dtype", "shape", "data_offsets"})
      HALOGRAD_REQUIRE(tensor.is_object() && tensor.contains(key), where, "tensor ", name, " has no ", key);
    HALOGRAD_REQUIRE(tensor["dtype"].is_string(), where, "tensor ", name, ": dtype is not a string");
    entries[name] = {tensor["dtype"].get<std::string>(),
                     whole_numbers(tensor["shape"], where + "tensor " + name + ": shape"),
                     whole_numbers(tensor["data_offsets"], where + "tensor " + name + ": data_offsets")};
  }
  return entries;
}

template <class Stored>
std::vector<Stored> values_of(const std::vector<char>& bytes) {
  std::vector<Stored> values(bytes.size() / sizeof(Stored));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(Stored));
  return values;
}

}  // namespace

void write_safetensors(const std::string& path, const StateDict& state,
                       const std::map<std::string, std::string>& facts) {
  Json entries, metadata{{"format", "pt"}};
  for (const auto& [key, value] : facts) metadata[key] = value;
  entries["__metadata__"] = metadata;
  std::size_t begin = 0;
  for (const StateTensor& tensor : state) {
    const std::size_t end = begin + tensor.values.size() * 4 + tensor.integers.size() * 8;
    entries[tensor.name] = {
        {"dtype", tensor.integers.empty() ? "F32" : "I64"}, {"shape", tensor.extents}, {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string header = json_text(entries);
  header.resize((header.size() + 7) / 8 * 8, ' ');  // values begin at a multiple of 8
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  const auto put = [&](const void* data, std::size_t bytes) {
    file.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
  };
  const std::uint64_t length = header.size();
  put(&length, sizeof(length));
  put(header.data(), header.size());
  for (const StateTensor& tensor : state) {
    put(tensor.values.data(), tensor.values.size() * 4);
    put(tensor.integers.data(), tensor.integers.size() * 8);
  }
  file.close();
  HALOGRAD_REQUIRE(file.good(), path, ": cannot be written (is the disk full?)");
}

StateDict read_safetensors(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  HALOGRAD_REQUIRE(file.is_open(), path, ": cannot be opened for reading");
  const std::uint64_t size = std::filesystem::file_size(path);
  std::uint64_t length = 0;
  file.read(reinterpret_cast<char*>(&length), sizeof(length));
  HALOGRAD_REQUIRE(file.good() && length >= 2 && length <= size - sizeof(length), path,
                   ": is not a safetensors file, or is cut short: it has ", size, " bytes and its header would have ",
                   length);
  std::string header(length, '\0');
  file.read(header.data(), static_cast<std::streamsize>(length));
  const std::uint64_t first = sizeof(length) + length;
  std::uint64_t left = size - first;
  StateDict state;
  for (const auto& [name, entry] : read_entries(header, path)) {
    const bool integers = entry.type == "I64";
    HALOGRAD_REQUIRE(integers || entry.type == "F32" || entry.type == "F64", path, ": tensor ", name, " is of type ",
                     entry.type, ", expected F32, F64 or I64 (in PyTorch: tensor.float())");
    const long bytes_each = entry.type == "F32" ? 4 : 8;
    long count = 1;
    for (const long extent : entry.shape) {
      HALOGRAD_REQUIRE(extent == 0 || count <= std::numeric_limits<long>::max() / 8 / extent, path, ": tensor ", name,
                       " has an impossible shape");
      count *= extent;
    }
    HALOGRAD_REQUIRE(entry.offsets.size() == 2 && entry.offsets[0] <= entry.offsets[1] &&
                         entry.offsets[1] - entry.offsets[0] == count * bytes_each,
                     path, ": tensor ", name, ": its place in the file does not fit its shape");
    HALOGRAD_REQUIRE(static_cast<std::uint64_t>(entry.offsets[1]) <= size - first, path, ": is cut short: tensor ",
                     name, " would end at offset ", first + static_cast<std::uint64_t>(entry.offsets[1]),
                     ", but the file ends at ", size);
    HALOGRAD_REQUIRE(static_cast<std::uint64_t>(count * bytes_each) <= left, path, ": tensor ", name,
                     " shares its place with others: together they are longer than the file");
    left -= static_cast<std::uint64_t>(count * bytes_each);
    std::vector<char> bytes(static_cast<std::size_t>(count * bytes_each));
    file.seekg(static_cast<std::streamoff>(first) + entry.offsets[0]);
    file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    HALOGRAD_REQUIRE(file.good() || bytes.empty(), path, ": tensor ", name, " cannot be read");
    StateTensor& tensor = state.emplace_back();
    tensor.name = name;
    tensor.extents = entry.shape;
    if (integers) {
      tensor.integers = values_of<std::int64_t>(bytes);
    } else if (entry.type == "F32") {
      tensor.values = values_of<float>(bytes);
    } else {
      for (const double value : values_of<double>(bytes)) tensor.values.push_back(static_cast<float>(value));
    }
  }
  return state;
}

}  // namespace halograd
