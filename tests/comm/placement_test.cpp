#include "comm/placement.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "support/devices.hpp"

namespace halograd {
namespace {

TEST(Placement, RanksThatShareTheirCoresAreNamedTogether) {
  const auto nodes = places_by_node({{"a", "0-7", ""}, {"a", "0-7", ""}, {"b", "0-3", ""}});
  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_EQ(nodes[0].node, "a");
  EXPECT_EQ(nodes[0].text, "ranks 0-1 share cores 0-7");
  EXPECT_EQ(nodes[1].node, "b");
  EXPECT_EQ(nodes[1].text, "rank 2: cores 0-3");
}

TEST(Placement, RanksWithCoresAndDevicesOfTheirOwnAreListed) {
  const auto nodes = places_by_node({{"a", "0-3", "0"}, {"b", "0", ""}, {"a", "4-7", "1"}});
  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_EQ(nodes[0].text, "rank 0: cores 0-3, device 0; rank 2: cores 4-7, device 1");
  // the same cores, but not the same device
  EXPECT_EQ(places_by_node({{"a", "0-7", "0"}, {"a", "0-7", "1"}})[0].text,
            "rank 0: cores 0-7, device 0; rank 1: cores 0-7, device 1");
}

TEST(Placement, ALongListIsCut) {
  std::vector<RankPlace> ranks;
  for (int rank = 0; rank < 64; ++rank) ranks.push_back({"a", std::to_string(rank), ""});
  const auto nodes = places_by_node(ranks);
  ASSERT_EQ(nodes.size(), 1U);
  EXPECT_NE(nodes[0].text.find("rank 7: cores 7; and 56 ranks more"), std::string::npos) << nodes[0].text;
}

TEST(Devices, ARankTakesOneOfThoseThatItSees) {
  for (const char* variable : {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"})
    unsetenv(variable);
  EXPECT_TRUE(visible_devices().empty());
  EXPECT_EQ(device_of(3), 3);
  setenv("ROCR_VISIBLE_DEVICES", "2,5", 1);
  EXPECT_EQ(visible_devices(), (std::vector<std::string>{"2", "5"}));
  EXPECT_EQ(device_of(1), 1);
  setenv("CUDA_VISIBLE_DEVICES", "6", 1);  // a launcher that gave each rank its own
  EXPECT_EQ(device_of(0), 0);
  EXPECT_EQ(device_of(3), 0);
  unsetenv("CUDA_VISIBLE_DEVICES");
  unsetenv("ROCR_VISIBLE_DEVICES");
}

}  // namespace
}  // namespace halograd
