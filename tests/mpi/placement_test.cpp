#include "mpi/placement.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "kernels/error.hpp"
#include "support/devices.hpp"

namespace halograd::placement_test {
namespace {

TEST(Placement, RanksThatShareTheirCoresAreNamedTogether) {
  const auto nodes = places_by_node({{"a", "0-7", "", ""}, {"a", "0-7", "", ""}, {"b", "0-3", "", ""}});
  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_EQ(nodes[0].node, "a");
  EXPECT_EQ(nodes[0].text, "ranks 0-1 share cores 0-7");
  EXPECT_EQ(nodes[1].node, "b");
  EXPECT_EQ(nodes[1].text, "rank 2: cores 0-3");
}

TEST(Placement, RanksWithCoresAndDevicesOfTheirOwnAreListed) {
  const auto nodes = places_by_node({{"a", "0-3", "0", ""}, {"b", "0", "", ""}, {"a", "4-7", "1", ""}});
  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_EQ(nodes[0].text, "rank 0: cores 0-3, device 0; rank 2: cores 4-7, device 1");
  // the same cores, but not the same device
  EXPECT_EQ(places_by_node({{"a", "0-7", "0", ""}, {"a", "0-7", "1", ""}})[0].text,
            "rank 0: cores 0-7, device 0; rank 1: cores 0-7, device 1");
}

TEST(Placement, ALongListIsCut) {
  std::vector<RankPlace> ranks;
  for (int rank = 0; rank < 64; ++rank) ranks.push_back({"a", std::to_string(rank), "", ""});
  const auto nodes = places_by_node(ranks);
  ASSERT_EQ(nodes.size(), 1U);
  EXPECT_NE(nodes[0].text.find("rank 7: cores 7; and 56 more ranks"), std::string::npos) << nodes[0].text;
}

TEST(Placement, RanksThatShareADeviceAreRefusedWithoutLeave) {
  const std::vector<RankPlace> ranks{{"a", "0", "0", "0000:3b:00.0"},
                                     {"a", "1", "0", "0000:af:00.0"},
                                     {"b", "0", "0", "0000:3b:00.0"},
                                     {"a", "2", "1", "0000:af:00.0"},
                                     {"a", "3", "", ""},
                                     {"a", "4", "", ""}};
  EXPECT_NO_THROW(require_devices(ranks, 2));
  try {
    require_devices(ranks, 1);
    ADD_FAILURE() << "not refused";
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("ranks 1,3 share the device 0000:af:00.0 of node a, expected at most 1"), std::string::npos)
        << message;
  }
}

TEST(Devices, AreThoseThatALauncherLeft) {
  for (const char* variable : {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"})
    unsetenv(variable);
  EXPECT_TRUE(visible_devices().empty());
  setenv("ROCR_VISIBLE_DEVICES", "2,5", 1);
  EXPECT_EQ(visible_devices(), (std::vector<std::string>{"2", "5"}));
  setenv("CUDA_VISIBLE_DEVICES", "6", 1);  // a launcher that gave each rank its own
  EXPECT_EQ(visible_devices(), std::vector<std::string>{"6"});
  unsetenv("CUDA_VISIBLE_DEVICES");
  unsetenv("ROCR_VISIBLE_DEVICES");
}

}  // namespace
}  // namespace halograd::placement_test
