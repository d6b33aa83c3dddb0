#include "graph/topology_file.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "kernels/error.hpp"

namespace halograd::topology_file_test {
namespace {

const std::string directed_triangle = R"(ranks = 3
[[edge]]
from = 0
to = 1
weight = 0.25
[[edge]]
from = 1
to = 2
weight = 0.25
[[edge]]
from = 2
to = 0
weight = 0.25
)";

/// A file of this test alone, gone with it.
class TopologyFile : public testing::Test {
 protected:
  std::string write(const std::string& text) {
    std::ofstream(path_) << text;
    return path_;
  }
  void TearDown() override { std::remove(path_.c_str()); }

  /// What reading the text says; empty where it is accepted.
  std::string message_of(const std::string& text, int ranks, const std::string& weights = "automatic") {
    try {
      read_topology_file(write(text), weights, ranks);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  /// The message names the file and the line, and marks the place.
  void expect_at_line(const std::string& message, int line, const std::string& part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_NE(message.find(path_), std::string::npos) << message;
    EXPECT_NE(message.find("\n  " + std::to_string(line) + " |"), std::string::npos) << message;
    EXPECT_NE(message.find('^'), std::string::npos) << message;
  }

  std::string path_ = testing::TempDir() + "halograd_topology_" + std::to_string(getpid()) + ".toml";
};

TEST_F(TopologyFile, ReadsDirectedEdgesWithTheirWeights) {
  const Topology topology = read_topology_file(write(directed_triangle), "automatic", 3);
  EXPECT_EQ(topology.kind(), "file");
  EXPECT_EQ(topology.in_neighbours(1), (std::vector<Neighbour>{{0, 0.25}}));
  EXPECT_EQ(topology.out_neighbours(1), (std::vector<Neighbour>{{2, 0.25}}));
  EXPECT_EQ(topology.self_weight(0), 0.75);
}

TEST_F(TopologyFile, IsReachedThroughTheFactory) {
  TopologyConfig config;
  config.kind = "file";
  config.file = write(directed_triangle);
  EXPECT_EQ(make_topology(config, 3).self_weight(2), 0.75);
}

TEST_F(TopologyFile, TakesMetropolisHastingsWeightsForEdgesWithoutAny) {
  const std::string path = R"(ranks = 3
edge = [{from = 0, to = 1}, {from = 1, to = 0}, {from = 1, to = 2}, {from = 2, to = 1}]
)";
  const Topology topology = read_topology_file(write(path), "metropolis_hastings", 3);
  EXPECT_DOUBLE_EQ(topology.in_neighbours(0)[0].weight, 1.0 / 3);
  EXPECT_DOUBLE_EQ(topology.self_weight(0), 2.0 / 3);
  EXPECT_EQ(read_topology_file(write(path), "automatic", 3).matrix(), topology.matrix());
  expect_at_line(message_of(directed_triangle, 3, "metropolis_hastings"), 5, "has a weight");
  EXPECT_NE(message_of("ranks = 2\n[[edge]]\nfrom = 0\nto = 1\n", 2, "metropolis_hastings").find("undirected"),
            std::string::npos);
}

TEST_F(TopologyFile, TakesWeightsForAllEdgesOrForNone) {
  const std::string first = "ranks = 2\n[[edge]]\nfrom = 0\nto = 1\n", second = "[[edge]]\nfrom = 1\nto = 0\n";
  const std::string weight = "weight = 0.5\n";
  EXPECT_EQ(message_of(first + second, 2), "");
  EXPECT_EQ(message_of(first + weight + second + weight, 2), "");
  expect_at_line(message_of(first + weight + second, 2), 6, "no weight");
  expect_at_line(message_of(first + second + weight, 2), 8, "has a weight");
}

TEST_F(TopologyFile, RefusesAFileThatIsNotThereOrNotToml) {
  EXPECT_THROW(read_topology_file("/nowhere/graph.toml", "automatic", 3), Error);
  expect_at_line(message_of("ranks = 3\nedge = [\n", 3), 2, "");
}

TEST_F(TopologyFile, RefusesAnotherNumberOfRanks) {
  expect_at_line(message_of(directed_triangle, 4), 1, "made for 3 ranks, but this job has 4");
  EXPECT_NE(message_of("", 4).find("\"ranks\" is missing"), std::string::npos);
  expect_at_line(message_of("ranks = \"four\"\n", 4), 1, "not an integer");
}

TEST_F(TopologyFile, RefusesUnknownMissingAndMistypedKeys) {
  expect_at_line(message_of("ranks = 3\nrank = 3\n", 3), 2, "unknown key \"rank\"");
  expect_at_line(message_of("ranks = 3\n[[edge]]\nfrom = 0\nto = 1\nwieght = 0.5\n", 3), 5, "wieght");
  EXPECT_NE(message_of("ranks = 3\n[[edge]]\nfrom = 0\nweight = 0.5\n", 3).find("\"to\" is missing"),
            std::string::npos);
  expect_at_line(message_of("ranks = 3\n[[edge]]\nfrom = 0.0\nto = 1\nweight = 0.5\n", 3), 3, "not an integer");
  expect_at_line(message_of("ranks = 3\n[[edge]]\nfrom = 0\nto = 1\nweight = \"half\"\n", 3), 5, "not a number");
  expect_at_line(message_of("ranks = 3\nedge = 4\n", 3), 2, "not an array");
  expect_at_line(message_of("ranks = 3\nedge = [4]\n", 3), 2, "not a table");
}

TEST_F(TopologyFile, RefusesEdgesOutOfRangeToItselfAndRepeated) {
  expect_at_line(message_of("ranks = 3\n[[edge]]\nfrom = 0\nto = 3\nweight = 0.5\n", 3), 4, "rank from 0 to 2");
  expect_at_line(message_of("ranks = 3\n[[edge]]\nfrom = -1\nto = 2\nweight = 0.5\n", 3), 3, "from = -1");
  expect_at_line(message_of("ranks = 3\n[[edge]]\nfrom = 1\nto = 1\nweight = 0.5\n", 3), 4, "to itself");
  expect_at_line(message_of(directed_triangle + "[[edge]]\nfrom = 0\nto = 1\nweight = 0.5\n", 3), 15, "a second time");
}

TEST_F(TopologyFile, RefusesWeightsThatAreNotShares) {
  for (const char* weight : {"0", "0.0", "-0.5", "1.5", "nan", "inf"}) {
    expect_at_line(message_of("ranks = 2\n[[edge]]\nfrom = 0\nto = 1\nweight = " + std::string(weight) + "\n", 2), 5,
                   "weight = ");
  }
}

TEST_F(TopologyFile, RefusesAMatrixThatIsNotDoublyStochasticAndNamesTheRowOrColumn) {
  const auto edge = [](int from, int to, const std::string& weight) {
    return "[[edge]]\nfrom = " + std::to_string(from) + "\nto = " + std::to_string(to) + "\nweight = " + weight + "\n";
  };
  const std::string column = message_of("ranks = 2\n" + edge(0, 1, "0.5") + edge(1, 0, "0.25"), 2);
  EXPECT_NE(column.find("column 0"), std::string::npos) << column;
  EXPECT_NE(column.find("1.25"), std::string::npos) << column;
  EXPECT_NE(column.find(path_), std::string::npos) << column;
  const std::string row = message_of("ranks = 3\n" + edge(0, 1, "0.75") + edge(2, 1, "0.5"), 3);
  EXPECT_NE(row.find("row 1"), std::string::npos) << row;
  EXPECT_NE(row.find("self weight of -0.25"), std::string::npos) << row;
  const std::string apart =
      message_of("ranks = 4\n" + edge(0, 1, "0.5") + edge(1, 0, "0.5") + edge(2, 3, "0.5") + edge(3, 2, "0.5"), 4);
  EXPECT_NE(apart.find("rank 2 cannot be reached from rank 0"), std::string::npos) << apart;
  EXPECT_NE(message_of("ranks = 2\n" + edge(0, 1, "0.5"), 2).find("rank 0 cannot be reached from rank 1"),
            std::string::npos);
}

}  // namespace
}  // namespace halograd::topology_file_test
