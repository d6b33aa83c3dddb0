#include <gtest/gtest.h>

#include <string>

#include "kernels/error.hpp"
#include "run/read.hpp"

namespace halograd::layers_test {
namespace {

/// What reading a network of these layers says; the first layer stands on line 3.
std::string message_of(const std::string& layers) {
  try {
    parse_config("data.format = \"synthetic\"\nnetwork.name = \"net\"\n" + layers, "net.toml");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

void expect_part(const std::string& message, const std::string& part) {
  EXPECT_NE(message.find(part), std::string::npos) << "expected:\n" << part << "\nin:\n" << message;
}

TEST(ReadLayers, TakeOnlyTheKeysOfTheirType) {
  EXPECT_EQ(message_of("[[network.layer]]\ntype = \"relu\"\nkernel = 3\n"),
            "net.toml:5:1: layers of type relu do not take \"kernel\"; only conv, conv_transpose, max_pool, avg_pool "
            "do\n  5 | kernel = 3\n"
            "    | ^^^^^^\nlayers of type relu take: type, name, inputs");
  expect_part(message_of("[[network.layer]]\ntype = \"max_pool\"\nkernel = 2\nchannels = 3\n"),
              "layers of type max_pool do not take \"channels\"; only conv, conv_transpose, dense, slice do");
  expect_part(message_of("[[network.layer]]\ntype = \"dense\"\nchannels = 2\nprobability = 0.5\n"),
              "layers of type dense do not take \"probability\"; only dropout do");
  expect_part(message_of("[[network.layer]]\ntype = \"conv\"\nkernels = 3\n"),
              "net.toml:5:1: unknown key \"kernels\" in [[network.layer]]; did you mean \"kernel\"?");
  expect_part(message_of("[[network.layer]]\ntyp = \"conv\"\n"), "unknown key \"typ\" in [[network.layer]]");
}

TEST(ReadLayers, NeedTheKeysOfTheirType) {
  EXPECT_EQ(message_of("[[network.layer]]\nname = \"x\"\n"),
            "net.toml:3:1: [[network.layer]] needs the key \"type\" (what the layer does)\n  3 | [[network.layer]]\n"
            "    | ^^^^^^^^^^^^^^^^^");
  expect_part(message_of("[[network.layer]]\ntype = \"conv\"\nkernel = 3\n"),
              "net.toml:3:1: a layer of type conv needs the key \"channels\" (output channels)");
  expect_part(message_of("[[network.layer]]\ntype = \"avg_pool\"\n"),
              "a layer of type avg_pool needs the key \"kernel\"");
}

TEST(ReadLayers, RangesAndTypesHold) {
  expect_part(
      message_of("[[network.layer]]\ntype = \"softmax\"\n"),
      "net.toml:4:8: network.layer.type is \"softmax\", must be one of \"conv\", \"conv_transpose\", \"dense\"");
  expect_part(message_of("[[network.layer]]\ntype = \"dropout\"\nprobability = 1\n"),
              "net.toml:5:15: network.layer.probability is 1, must be at least 0 and below 1");
  expect_part(message_of("[[network.layer]]\ntype = \"conv\"\nchannels = 1\nkernel = [3, 0]\n"),
              "net.toml:6:14: network.layer.kernel is 0, must be at least 1");
  expect_part(message_of("[[network.layer]]\ntype = \"conv\"\nchannels = 1\nkernel = []\n"),
              "found a list of 0, expected an integer or a list of integers");
  expect_part(message_of("[[network.layer]]\ntype = \"relu\"\nname = \"a/b\"\n"), "network.layer.name is \"a/b\"");
}

TEST(ReadLayers, NamesAreUnique) {
  const std::string given = "[[network.layer]]\ntype = \"relu\"\nname = \"same\"\n";
  EXPECT_EQ(message_of(given + given),
            "net.toml:8:8: two layers are called \"same\"\n  8 | name = \"same\"\n    |        ^^^^^^\n"
            "the first stands at net.toml:5:8");
  EXPECT_EQ(message_of("[[network.layer]]\ntype = \"relu\"\nname = \"relu2\"\n[[network.layer]]\ntype = \"relu\"\n"),
            "net.toml:6:1: two layers are called \"relu2\" (one of them by default: its type and number)\n"
            "  6 | [[network.layer]]\n    | ^^^^^^^^^^^^^^^^^\nthe first stands at net.toml:5:8");
  expect_part(message_of("[[network.layer]]\ntype = \"relu\"\nname = \"input\"\n"),
              "net.toml:5:8: the name \"input\" stands for the images");
}

TEST(ReadLayers, InputsAreEarlierLayers) {
  const std::string first = "[[network.layer]]\ntype = \"relu\"\nname = \"first\"\n";
  EXPECT_EQ(message_of(first + "[[network.layer]]\ntype = \"add\"\ninputs = [\"input\", \"frist\"]\n"),
            "net.toml:8:20: layer \"add1\" takes \"frist\", which is not a layer; did you mean \"first\"?\n"
            "  8 | inputs = [\"input\", \"frist\"]\n    |                    ^^^^^^^\n"
            "layers before it: input, first");
  expect_part(message_of("[[network.layer]]\ntype = \"relu\"\ninputs = [\"first\"]\n" + first),
              "net.toml:5:11: layer \"relu1\" takes \"first\", which comes later");
  expect_part(message_of("[[network.layer]]\ntype = \"relu\"\ninputs = [\"relu1\"]\n"),
              "net.toml:5:11: layer \"relu1\" names itself as its input");
}

TEST(ReadLayers, OnlyAddAndConcatTakeSeveralInputs) {
  const std::string first = "[[network.layer]]\ntype = \"relu\"\n";
  expect_part(message_of(first + "[[network.layer]]\ntype = \"add\"\n"),
              "net.toml:5:1: layer \"add1\" takes two inputs, found 0");
  expect_part(message_of(first + "[[network.layer]]\ntype = \"relu\"\ninputs = [\"relu1\", \"input\"]\n"),
              "net.toml:7:10: layer \"relu2\" takes one input, found 2; only add and concat take more");
}

}  // namespace
}  // namespace halograd::layers_test
