#pragma once

#include <cstdint>
#include <cstring>
#include <string>

namespace halograd {

/// Writes one message of Protocol Buffers' wire format (https://protobuf.dev/programming-guides/encoding): all that
/// ONNX needs of it, so that neither a library nor a code generator has to match the version of ONNX's schema.
class ProtobufMessage {
 public:
  void add(int field, std::int64_t value) {
    key(field, 0);
    varint(static_cast<std::uint64_t>(value));
  }
  void add(int field, float value) {
    key(field, 5);
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof(bits));
    for (int shift = 0; shift < 32; shift += 8) bytes_ += static_cast<char>((bits >> shift) & 0xffU);
  }
  void add(int field, const std::string& text) {
    key(field, 2);
    varint(text.size());
    bytes_ += text;
  }
  void add(int field, const ProtobufMessage& message) { add(field, message.bytes_); }

  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  void key(int field, int wire_type) {
    varint(static_cast<std::uint64_t>(field) << 3U | static_cast<unsigned>(wire_type));
  }
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7U) bytes_ += static_cast<char>((value & 0x7fU) | 0x80U);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

}  // namespace halograd
