#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convert/protobuf.hpp"

/// The pieces of an ONNX graph as messages.
namespace halograd {

// Field numbers and codes of onnx.proto (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto).
namespace onnx::model {
enum { ir_version = 1, producer_name = 2, producer_version = 3, graph = 7, operator_set = 8, metadata = 14 };
}
namespace onnx::graph {
enum { node = 1, name = 2, initializer = 5, input = 11, output = 12 };
}
namespace onnx::node {
enum { input = 1, output = 2, name = 3, operation = 4, attribute = 5 };
}
namespace onnx::attribute {
enum {
  name = 1,
  f = 2,
  i = 3,
  s = 4,
  ints = 8,
  type = 20,
  type_float = 1,
  type_int = 2,
  type_string = 3,
  type_ints = 7
};
}
namespace onnx::tensor {
enum { dims = 1, data_type = 2, name = 8, raw_data = 9, type_float = 1, type_int = 7 };
}
/// One operator of a graph.
class OnnxNode {
 public:
  OnnxNode(const std::string& operation, const std::string& name, const std::vector<std::string>& inputs,
           const std::string& output) {
    for (const std::string& input : inputs) message_.add(onnx::node::input, input);
    message_.add(onnx::node::output, output);
    message_.add(onnx::node::name, name);
    message_.add(onnx::node::operation, operation);
  }
  OnnxNode& set(const std::string& name, std::int64_t value) {
    return set(name, onnx::attribute::type_int, [&](ProtobufMessage& m) { m.add(onnx::attribute::i, value); });
  }
  OnnxNode& set(const std::string& name, float value) {
    return set(name, onnx::attribute::type_float, [&](ProtobufMessage& m) { m.add(onnx::attribute::f, value); });
  }
  OnnxNode& set(const std::string& name, const std::vector<std::int64_t>& values) {
    return set(name, onnx::attribute::type_ints, [&](ProtobufMessage& m) {
      for (const std::int64_t value : values) m.add(onnx::attribute::ints, value);
    });
  }
  OnnxNode& set(const std::string& name, const std::string& value) {
    return set(name, onnx::attribute::type_string, [&](ProtobufMessage& m) { m.add(onnx::attribute::s, value); });
  }
  [[nodiscard]] const ProtobufMessage& message() const { return message_; }

 private:
  template <class AddValue>
  OnnxNode& set(const std::string& name, int type, const AddValue& add_value) {
    ProtobufMessage entry;
    entry.add(onnx::attribute::name, name);
    add_value(entry);
    entry.add(onnx::attribute::type, std::int64_t{type});
    message_.add(onnx::node::attribute, entry);
    return *this;
  }
  ProtobufMessage message_;
};

/// Operators and constants, in the order in which they are added.
class OnnxGraph {
 public:
  void add(const OnnxNode& node) { message_.add(onnx::graph::node, node.message()); }
  /// Adds an operator whose output has its name; the name.
  std::string add(const std::string& operation, const std::string& name, const std::vector<std::string>& inputs) {
    add(OnnxNode(operation, name, inputs, name));
    return name;
  }

  /// Constants; no extents: a scalar. Returns the name.
  std::string floats(const std::string& name, const std::vector<long>& extents, const std::vector<float>& values) {
    return constant(name, onnx::tensor::type_float, extents, values.data(), values.size() * sizeof(float));
  }
  std::string integers(const std::string& name, const std::vector<std::int64_t>& values) {
    return constant(name, onnx::tensor::type_int, {static_cast<long>(values.size())}, values.data(),
                    values.size() * sizeof(std::int64_t));
  }

  [[nodiscard]] ProtobufMessage& message() { return message_; }

 private:
  std::string constant(const std::string& name, std::int64_t type, const std::vector<long>& extents, const void* values,
                       std::size_t bytes) {
    ProtobufMessage tensor;
    for (const long extent : extents) tensor.add(onnx::tensor::dims, static_cast<std::int64_t>(extent));
    tensor.add(onnx::tensor::data_type, type);
    tensor.add(onnx::tensor::name, name);
    tensor.add(onnx::tensor::raw_data, std::string(static_cast<const char*>(values), bytes));
    message_.add(onnx::graph::initializer, tensor);
    return name;
  }

  ProtobufMessage message_;
};

}  // namespace halograd
