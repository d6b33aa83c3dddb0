#include "support/json.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "support/trace.hpp"

namespace halograd::json_test {
namespace {

TEST(Json, KeepsTheOrderAndReadsBackWhatItWrote) {
  Json object;
  object["z"] = std::numeric_limits<std::int64_t>::max();
  object["a"] = "a \"b\" \\ \n \x01 Zürich";
  object["m"] = std::vector<double>{0.1, 1.0 / 3, 5e-324, 1.7976931348623157e308};
  const std::string text = json_text(object);
  EXPECT_EQ(text.find('\n'), std::string::npos);
  EXPECT_LT(text.find("\"z\""), text.find("\"a\""));
  EXPECT_EQ(Json::parse(text), object);
}

TEST(Json, WritesWhatItCannotHold) {
  EXPECT_EQ(json_text(std::numeric_limits<double>::quiet_NaN()), "null");
  EXPECT_EQ(json_text("caf\xe9"), "\"caf\xef\xbf\xbd\"");
}

TEST(Json, TraceEventsAreOnesOfChrome) {
  const std::string text = trace::chrome_events({{"forward", "step", 5'001'234, 5'003'234, 1}}, 3, 500, 1'000);
  const Json events = Json::parse("[" + text + "]");
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0]["args"]["name"], "rank 3");
  EXPECT_EQ(events[1]["args"]["sort_index"], 3);
  EXPECT_EQ(events[2], Json::parse(R"({"name": "forward", "cat": "step", "ph": "X", "pid": 3, "tid": 1,
                                       "ts": 5000.734, "dur": 2})"));
}

}  // namespace
}  // namespace halograd::json_test
