#include "run/write.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "run/averager_checks.hpp"
#include "run/keys.hpp"
#include "run/read.hpp"

namespace halograd::write_test {
namespace {

/// A visitor that sets every member to some value it may have.
class Scrambler {
 public:
  explicit Scrambler(std::mt19937_64& random) : random_(random) {}

  template <class Member>
  void operator()(const char*, Member& member, const std::string&, const Allowed& allowed) {
    set(member, allowed);
  }
  template <class Struct>
  void section(const char*, Struct& member, const char*) {
    visit(*this, member);
  }
  void list(const char*, std::vector<LayerConfig>& layers, const char*) {
    layers.resize(static_cast<std::size_t>(whole(1, 12)));
    for (auto& layer : layers) visit(*this, layer);
  }

 private:
  long whole(long least, long most) { return std::uniform_int_distribution<long>(least, most)(random_); }

  void set(bool& member, const Allowed&) { member = whole(0, 1) == 1; }
  void set(int& member, const Allowed& allowed) {
    const double most = std::min<double>(allowed.most, whole(0, 1) == 1 ? 100 : 2147483647);
    member = static_cast<int>(whole(static_cast<long>(std::max(allowed.least, -1e9)), static_cast<long>(most)));
  }
  void set(std::uint64_t& member, const Allowed&) {
    member = static_cast<std::uint64_t>(whole(0, std::numeric_limits<long>::max()));
  }
  void set(double& member, const Allowed& allowed) {
    const double least = std::max(allowed.least, -1e300);
    const double most = std::min(allowed.most, 1e300);
    do {
      member = std::uniform_real_distribution<double>(0, 1)(random_);
      if (whole(0, 2) == 0) member = std::ldexp(member, static_cast<int>(whole(-1074, 900)));
      if (whole(0, 5) == 0) member = static_cast<double>(whole(-3, 1000000));
    } while (member < least || member > most || (member == most && !allowed.most_itself) ||
             (member == least && !allowed.least_itself));
  }
  void set(std::string& member, const Allowed& allowed) {
    member.clear();
    if (!allowed.choices.empty()) {
      member = allowed.choices[static_cast<std::size_t>(whole(0, static_cast<long>(allowed.choices.size()) - 1))];
      return;
    }
    const std::string letters = allowed.plain_name ? "abcXYZ019_-" : "ab \"'\\\n\t\r\x01\x7f#=[]\xc3\xa9";
    for (long left = whole(4, 20); left > 0; --left) {
      // The last two bytes are one character of UTF-8.
      const auto last = static_cast<long>(letters.size()) - 1;
      const auto at = static_cast<std::size_t>(whole(0, last));
      const bool wide = !allowed.plain_name && static_cast<long>(at) >= last - 1;
      member += wide ? letters.substr(static_cast<std::size_t>(last - 1)) : letters.substr(at, 1);
    }
  }
  void set(std::vector<int>& member, const Allowed& allowed) {
    member.resize(static_cast<std::size_t>(whole(2, 3)));  // as many as data.synthetic_shape and objects_field may have
    for (int& each : member) set(each, allowed);
  }
  void set(std::vector<double>& member, const Allowed& allowed) {
    member.resize(static_cast<std::size_t>(whole(0, 4)));
    for (double& each : member) set(each, allowed);
  }
  void set(std::vector<std::string>& member, const Allowed&) { member.clear(); }

  std::mt19937_64& random_;
};

/// Neighbour averaging, one time synchronous and one time stale, with as many of its keys as go together.
void make_sensible(RunConfig& config, bool stale) {
  AveragerConfig& averager = config.averager;
  averager.name = "neighbour";
  averager.overlap = false;
  averager.momentum = "local";
  averager.every = std::max(2, averager.every);
  config.topology.kind = "torus2d";
  config.topology.weights = "metropolis_hastings";
  if (stale) {
    averager.codec = "fp32";
    averager.global_every = 0;
    averager.consensus_target = 0;
  } else {
    averager.staleness = 0;
    averager.patience = 0;
  }
}

/// Random values, then what several keys together must fulfil.
RunConfig random_config(std::mt19937_64& random) {
  RunConfig config;
  Scrambler scramble(random);
  visit(scramble, config);
  // Not all keys of an averager go together: some of the one that goes with every graph.
  AveragerConfig averager;
  averager.order = config.averager.order;
  averager.age_factor = config.averager.age_factor;
  config.averager = averager;
  if (config.topology.weights == "out_degree") config.topology.weights = "uniform";
  config.schedule.milestones = {0.1 + 0.2, 1.0 / 3.0, 7};
  config.optimizer.nesterov = config.optimizer.nesterov && config.optimizer.momentum > 0;
  if (averager_conflict(config)) make_sensible(config, random() % 2 == 0);
  if (config.averager.name != "neighbour" || config.averager.patience == 0) config.comm.inject.drop_fraction = 0;
  if (config.loss.name == "mean_squared_error") config.loss.label_smoothing = 0;
  auto& layers = config.network.layers;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    layers[i].name += std::to_string(i);
    const std::string before = i == 0 ? "input" : layers[i - 1].name;
    if (layers[i].type == "add" || layers[i].type == "concat") layers[i].inputs = {"input", before};
    if (layers[i].type == "relu") layers[i].inputs = {before};
  }
  return config;
}

TEST(WriteConfig, RandomConfigsComeBackEqual) {
  std::mt19937_64 random(20240607);
  for (int round = 0; round < 100; ++round) {
    const RunConfig config = random_config(random);
    const std::string text = to_toml(config);
    ASSERT_EQ(parse_config(text, "resolved"), config) << text;
    ASSERT_EQ(to_toml(parse_config(text, "resolved")), text);
  }
}

TEST(WriteConfig, DoublesAreShortestAndExact) {
  RunConfig config;
  config.data.format = "synthetic";
  config.network.name = "lenet5";
  for (const double rate : {0.1, 1.0, 1e-5, 1e22, 0.1 + 0.2, std::nextafter(0.05, 1.0),
                            std::numeric_limits<double>::denorm_min(), std::numeric_limits<double>::max()}) {
    config.optimizer.learning_rate = rate;
    EXPECT_EQ(parse_config(to_toml(config), "resolved").optimizer.learning_rate, rate);
  }
  config.optimizer.learning_rate = 0.1;
  EXPECT_NE(to_toml(config).find("learning_rate = 0.1 "), std::string::npos);
  config.optimizer.learning_rate = 1;
  EXPECT_NE(to_toml(config).find("learning_rate = 1.0 "), std::string::npos);
}

TEST(WriteConfig, EveryKeyOfEverySectionStandsInTheText) {
  RunConfig config;
  config.data.format = "synthetic";
  config.network.layers.resize(1);
  config.network.layers[0].type = "flatten";
  const std::string text = to_toml(config);
  for (const char* line :
       {"name = \"run\"", "[training]", "epochs = 1", "[data]", "format = \"synthetic\"", "[network]",
        "[[network.layer]]", "type = \"flatten\"", "[optimizer]", "[schedule]", "milestones = []", "[averager]",
        "[topology]", "[comm]", "force_put = false", "[output]", "print_steps = 100"}) {
    EXPECT_NE(("\n" + text).find(std::string("\n") + line), std::string::npos) << line;
  }
  EXPECT_EQ(text.find("kernel"), std::string::npos) << "flatten takes no kernel";
}

TEST(WriteConfig, RefusesASeedThatTomlCannotHold) {
  RunConfig config;
  config.training.seed = std::numeric_limits<std::uint64_t>::max();
  EXPECT_THROW(to_toml(config), Error);
}

}  // namespace
}  // namespace halograd::write_test
