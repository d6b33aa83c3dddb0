#include "convert/safetensors.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <sstream>
#include <string_view>

#include "kernels/error.hpp"

static_assert(std::endian::native == std::endian::little, "safetensors holds little-endian values");

namespace halograd {
namespace {

std::string quoted(const std::string& text) {
  std::string result(1, '"');
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') result += '\\';
    if (letter == '\n')
      result += "\\n";
    else
      result += letter;
  }
  result += '"';
  return result;
}

std::string list_of(const std::vector<long>& numbers) {
  std::ostringstream text;
  text << '[';
  for (std::size_t i = 0; i < numbers.size(); ++i) text << (i == 0 ? "" : ",") << numbers[i];
  text << ']';
  return text.str();
}

/// What the header says of one tensor.
struct Entry {
  std::string type;
  std::vector<long> shape, offsets;
};

/// Reads the JSON of a header: an object of objects, of strings and of lists of whole numbers, and nothing else.
class HeaderReader {
 public:
  HeaderReader(std::string_view text, std::string path) : text_(text), path_(std::move(path)) {}

  std::map<std::string, Entry> entries() {
    std::map<std::string, Entry> all;
    object([&](const std::string& name) {
      if (name == "__metadata__") {
        object([&](const std::string&) { string(); });
        return;
      }
      Entry entry;
      object([&](const std::string& key) {
        if (key == "dtype")
          entry.type = string();
        else if (key == "shape")
          entry.shape = numbers();
        else if (key == "data_offsets")
          entry.offsets = numbers();
        else
          wrong("key '" + key + "'");
      });
      if (!all.emplace(name, entry).second) wrong("a second tensor '" + name + "'");
    });
    skip_space();
    if (at_ != text_.size()) wrong("text after the end");
    return all;
  }

 private:
  [[noreturn]] void wrong(const std::string& what) const {
    fail(path_, ": header of safetensors: unexpected ", what, " at offset ", at_ + 8);
  }
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r'))
      ++at_;
  }
  [[nodiscard]] bool take(char wanted) {
    skip_space();
    if (at_ == text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  void need(char wanted) {
    if (!take(wanted)) wrong(at_ == text_.size() ? "end" : std::string("'") + text_[at_] + "', not '" + wanted + "'");
  }
  void object(const std::function<void(const std::string&)>& member) {
    need('{');
    if (take('}')) return;
    do {
      const std::string key = string();
      need(':');
      member(key);
    } while (take(','));
    need('}');
  }
  std::string string() {
    need('"');
    std::string value;
    for (; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] == '\\' && ++at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\\' && text_[at_] != '/' &&
          text_[at_] != 'n')
        wrong("escape in a name");
      if (at_ < text_.size()) value += text_[at_];
    }
    need('"');
    return value;
  }
  std::vector<long> numbers() {
    std::vector<long> values;
    need('[');
    if (take(']')) return values;
    do {
      skip_space();
      const std::size_t begin = at_;
      long value = 0;
      for (; at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0; ++at_) {
        if (at_ - begin >= 18) wrong("long number");
        value = 10 * value + (text_[at_] - '0');
      }
      if (at_ == begin) wrong("value in a list of numbers");
      values.push_back(value);
    } while (take(','));
    need(']');
    return values;
  }

  std::string_view text_;
  std::string path_;
  std::size_t at_ = 0;
};

template <class Stored>
std::vector<Stored> values_of(const std::vector<char>& bytes) {
  std::vector<Stored> values(bytes.size() / sizeof(Stored));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(Stored));
  return values;
}

}  // namespace

void write_safetensors(const std::string& path, const StateDict& state,
                       const std::map<std::string, std::string>& facts) {
  std::ostringstream text;
  text << "{\"__metadata__\":{\"format\":\"pt\"";
  for (const auto& [key, value] : facts) text << ',' << quoted(key) << ':' << quoted(value);
  text << '}';
  long begin = 0;
  for (const StateTensor& tensor : state) {
    const long end = begin + static_cast<long>(tensor.values.size() * 4 + tensor.integers.size() * 8);
    text << ',' << quoted(tensor.name) << ":{\"dtype\":\"" << (tensor.integers.empty() ? "F32" : "I64")
         << "\",\"shape\":" << list_of(tensor.extents) << ",\"data_offsets\":" << list_of({begin, end}) << '}';
    begin = end;
  }
  text << '}';
  std::string header = text.str();
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
                   ": no safetensors file, or cut short: it has ", size, " bytes and its header would have ", length);
  std::string header(length, '\0');
  file.read(header.data(), static_cast<std::streamsize>(length));
  const std::uint64_t first = sizeof(length) + length;
  StateDict state;
  for (const auto& [name, entry] : HeaderReader(header, path).entries()) {
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
                     ", the file ends at ", size);
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
