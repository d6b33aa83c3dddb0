#include "averagers/averager_table.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "kernels/error.hpp"

namespace halograd::averager_table_test {
namespace {

TEST(AveragerTable, NamesAreDifferentAndFactsFitTogether) {
  std::set<std::string> names;
  for (const AveragerRow& row : averagers()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_NE(std::string(*row.meaning), "") << row.name;
    const bool asks_for_a_graph = row.of_nodes || row.out_degree || row.device_windows;
    EXPECT_FALSE(asks_for_a_graph && row.graphs == Graphs::none) << row.name;
    EXPECT_FALSE(row.shares_gradients && row.exchanges != Exchange::gradients) << row.name;
  }
}

TEST(AveragerTable, AnUnknownNameIsRefusedWithTheKnownOnes) {
  try {
    row_of(AveragerConfig{"gossip"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "averager.name is \"gossip\"; expected one of none, allreduce, neighbour, push_sum, ad_psgd, "
                 "gossip_grad, easgd, fast, hierarchical");
  }
}

TEST(AveragerTable, RanksRunApartWhereTheConfigurationLetsThem) {
  AveragerConfig averager;
  const auto pace = [&] { return row_of(averager).pace(averager); };
  EXPECT_EQ(pace(), Pace::lockstep);
  averager.staleness = 3;
  EXPECT_EQ(pace(), Pace::bounded);
  averager.patience = 0.5;
  EXPECT_EQ(pace(), Pace::free);
  averager.patience = 0;
  averager.staleness = -1;
  EXPECT_EQ(pace(), Pace::free);
  for (const char* name : {"ad_psgd", "push_sum", "fast"}) {
    averager.name = name;
    EXPECT_EQ(pace(), Pace::free) << name;
  }
  averager.staleness = 0;
  for (const char* name : {"push_sum", "fast"}) {
    averager.name = name;
    EXPECT_EQ(pace(), Pace::lockstep) << name;
  }
  averager.name = "allreduce";
  EXPECT_EQ(pace(), Pace::lockstep);
}

TEST(AveragerTable, DeviceWindowsAreForWeightsAsTheyAreOnAGraphThatStays) {
  AveragerConfig averager;
  EXPECT_TRUE(may_use_device_windows(averager, false));
  EXPECT_FALSE(may_use_device_windows(averager, true));
  averager.codec = "bf16";
  EXPECT_FALSE(may_use_device_windows(averager, false));
  averager = {};
  averager.name = "fast";
  EXPECT_FALSE(may_use_device_windows(averager, false));
}

TEST(AveragerTable, TitlesNameTheOrderWhereThereIsOne) {
  EXPECT_EQ(title_of(AveragerConfig{"neighbour"}), "neighbour combine_then_adapt");
  EXPECT_EQ(title_of(AveragerConfig{"push_sum"}), "push_sum");
}

}  // namespace
}  // namespace halograd::averager_table_test
