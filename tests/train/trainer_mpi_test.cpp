#include "train/trainer.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include <string>
#include <vector>

#include "io/checkpoint.hpp"
#include "kernels/error.hpp"
#include "mpi/communicator.hpp"
#include "run/read.hpp"
#include "support/text_file.hpp"
#include "tests/io/mpi_helpers.hpp"
#include "tests/kernels/differences.hpp"

namespace halograd::trainer_mpi_test {
namespace {

/// A small network without batch-norm on synthetic images; 26 of them are left for each epoch's last step.
RunConfig small_run(const std::string& folder, const std::string& name, const std::vector<std::string>& keys) {
  std::vector<std::string> overrides{"name=" + name, "output.folder=\"" + folder + "\"", "output.print_steps=0"};
  overrides.insert(overrides.end(), keys.begin(), keys.end());
  return parse_config(R"(
[training]
epochs = 2
batch = 48
[data]
format = "synthetic"
synthetic_train = 170
synthetic_test = 40
synthetic_shape = [10, 10, 2]
synthetic_classes = 4
pad_crop = 1
flip = true
[network]
name = "small"
layer = [{type = "conv", channels = 6, kernel = 3}, {type = "relu"}, {type = "max_pool", kernel = 2, stride = 2},
         {type = "flatten"}, {type = "dense", channels = 4}]
[optimizer]
learning_rate = 0.05
momentum = 0.9
weight_decay = 1e-3
)",
                      "test", overrides);
}

struct Trained {
  TrainingResult result;
  std::vector<float> mean;
};

Trained train(const RunConfig& config, const Communicator& comm) {
  Report report(true, 0);
  Trained trained;
  {
    Trainer trainer(config, comm, report);
    trained.result = trainer.run({});
  }
  const CheckpointHeader header = read_checkpoint_header(trained.result.checkpoint);
  EXPECT_EQ(header.ranks, comm.ranks());
  const Network network(config.network, {10, 10, 2}, 4, 1);
  trained.mean.resize(network.parameter_count());
  read_checkpoint_mean(trained.result.checkpoint, HostVector<float>(trained.mean.data(), trained.mean.size()),
                       HostVector<float>());
  return trained;
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = larger_error(largest, static_cast<double>(a[i]) - b[i]);
  return largest;
}

// Rounding differs with the order of sums; the weights move by far more.
constexpr double rounding = 2e-5;

TEST(Trainer, AllreduceEqualsOneRankAtTheSameGlobalBatch) {
  const Communicator comm(MPI_COMM_WORLD), self(MPI_COMM_SELF);
  const test::Folder folder;
  const Trained together = train(small_run(folder.path(), "together", {"averager.name=allreduce"}), comm);
  const Trained alone =
      train(small_run(folder.path(), "alone" + std::to_string(comm.rank()), {"averager.name=allreduce"}), self);
  EXPECT_LT(largest_difference(together.mean, alone.mean), rounding);
  EXPECT_LT(together.result.last.consensus_distance, 1e-12);
  EXPECT_NEAR(together.result.last.mean_model_loss, alone.result.last.mean_model_loss, 1e-4);
  const Trained other = train(
      small_run(folder.path(), "other" + std::to_string(comm.rank()), {"averager.name=allreduce", "training.seed=2"}),
      self);
  EXPECT_GT(largest_difference(together.mean, other.mean), 100 * rounding);
}

TEST(Trainer, CompleteGraphAfterPlainSgdEqualsAllreduce) {
  const Communicator comm(MPI_COMM_WORLD);
  const test::Folder folder;
  // Equal shares in every step: replicas weigh the same in the mean of weights as their images do in the mean gradient.
  const std::vector<std::string> plain{"optimizer.momentum=0", "data.synthetic_train=192", "training.epochs=3"};
  const auto with = [&](std::vector<std::string> keys) {
    keys.insert(keys.end(), plain.begin(), plain.end());
    return keys;
  };
  const Trained allreduce = train(small_run(folder.path(), "allreduce", with({"averager.name=allreduce"})), comm);
  const Trained complete =
      train(small_run(folder.path(), "complete",
                      with({"averager.name=neighbour", "averager.order=adapt_then_combine", "topology.kind=complete"})),
            comm);
  EXPECT_LT(largest_difference(allreduce.mean, complete.mean), rounding);
  EXPECT_LT(complete.result.last.consensus_distance, 1e-5);
  if (comm.ranks() < 4) return;
  const Trained ring =
      train(small_run(folder.path(), "ring",
                      with({"averager.name=neighbour", "averager.order=adapt_then_combine", "topology.kind=ring"})),
            comm);
  EXPECT_GT(ring.result.last.consensus_distance, 1e-4) << "a ring keeps replicas apart while they learn";
}

TEST(Trainer, RanksWithDifferentNumbersOfTestBatchesAgreeAsOften) {
  // 10 images per step: shares of 3 and 4 images at 3 ranks, and so 14 and 10 batches of the 40 test images.
  const Communicator comm(MPI_COMM_WORLD);
  const test::Folder folder;
  const Trained trained =
      train(small_run(folder.path(), "unequal",
                      {"training.batch=10", "data.synthetic_train=50", "data.synthetic_test=41", "training.epochs=4"}),
            comm);
  EXPECT_EQ(trained.result.epochs, 4);
  EXPECT_EQ(trained.result.stopped, "");
}

/// Adam's first step moves a weight by the rate, whatever its gradient; with a count that went on it would be shorter.
TEST(Trainer, TheOptimizerCountsItsStepsFromItsRestart) {
  const Communicator comm(MPI_COMM_WORLD), self(MPI_COMM_SELF);
  const test::Folder folder;
  const std::string name = "fast" + std::to_string(comm.rank());
  const RunConfig config =
      small_run(folder.path(), name,
                {"averager.name=fast", "training.batch=170", "training.epochs=3", "optimizer.name=adam",
                 "optimizer.learning_rate=0.01", "optimizer.weight_decay=0", "output.keep=3"});
  const std::vector<float> last = train(config, self).mean;
  const auto after = [&](int steps) {
    const std::string path = folder.path() + "/" + name + "/checkpoints/step_0000000" + std::to_string(steps) + ".h5";
    EXPECT_EQ(read_checkpoint_header(path).optimizer_steps, 0) << "each epoch, of one step, ends with a restart";
    std::vector<float> mean(last.size());
    read_checkpoint_mean(path, HostVector<float>(mean.data(), mean.size()), HostVector<float>());
    return mean;
  };
  EXPECT_NEAR(largest_difference(after(1), after(2)), 0.01, 1e-5);
  EXPECT_NEAR(largest_difference(after(2), last), 0.01, 1e-5);
}

/// On every rank, before anything is trained, with these texts in the message.
void expect_refused(const RunConfig& config, const Communicator& comm, const std::vector<std::string>& texts) {
  Report report(true, 0);
  try {
    const Trainer trainer(config, comm, report);
    ADD_FAILURE() << "not refused";
  } catch (const CollectiveError& error) {
    for (const std::string& text : texts) {
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << "no '" << text << "' in: " << error.what();
    }
  }
}

TEST(Trainer, DifferentRunFilesAreRefusedOnAllRanks) {
  const Communicator comm(MPI_COMM_WORLD);
  if (comm.ranks() == 1) GTEST_SKIP() << "one rank cannot differ from itself";
  expect_refused(small_run("unused", "different", {"training.seed=" + std::to_string(comm.rank() == 1 ? 5 : 4)}), comm,
                 {"rank 1 was started with a different run file than rank 0: line", "seed = 5"});
}

TEST(Trainer, PairsOfADirectedGraphAreRefusedOnAllRanks) {
  const Communicator comm(MPI_COMM_WORLD);
  if (comm.ranks() < 3) GTEST_SKIP() << "a cycle of two has edges both ways";
  const test::Folder folder;
  const std::string file = folder.path() + "/cycle.toml";
  std::string text = "ranks = " + std::to_string(comm.ranks()) + "\n";
  for (int rank = 0; rank < comm.ranks(); ++rank) {
    text += "[[edge]]\nfrom = " + std::to_string(rank) + "\nto = " + std::to_string((rank + 1) % comm.ranks()) +
            "\nweight = 0.5\n";
  }
  test::on_root([&] { write_text(file, text); });
  expect_refused(small_run(folder.path(), "directed",
                           {"averager.name=ad_psgd", "topology.kind=file", "topology.file=\"" + file + "\""}),
                 comm, {"averager.name = \"ad_psgd\" needs edges both ways, but topology.file = \"" + file + "\""});
}

}  // namespace
}  // namespace halograd::trainer_mpi_test
