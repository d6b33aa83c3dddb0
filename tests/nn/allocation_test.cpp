// A training step allocates nothing: neither through operator new nor through Kokkos. Not counted is what Kokkos itself
// takes for the name of a kernel or fence, which 5.2 copies each time.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <string>

#include "nn/network.hpp"
#include "nn/reference_networks.hpp"
#include "optimizers/optimizer.hpp"

namespace {

std::atomic<bool> counting{false};
std::atomic<long> news{0}, kokkos_allocations{0};

void* counted(std::size_t bytes) {
  if (counting) ++news;
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

#if defined(__NVCC__)
#pragma nv_diag_suppress 20011  // to nvcc operator new is a function of device code too, where there is no counted()
#endif
void* operator new(std::size_t bytes) {
  return counted(bytes);
}
void* operator new[](std::size_t bytes) {
  return counted(bytes);
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {  // else a sanitizer's
  return counted(bytes);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace halograd::allocation_test {
namespace {

// Requests for 0 bytes are not counted: Kokkos makes one, for scratch, at each launch of teams on a device.
void count_kokkos_allocation(Kokkos_Profiling_SpaceHandle, const char*, const void*, std::uint64_t bytes) {
  if (counting && bytes > 0) ++kokkos_allocations;
}

std::atomic<long> loops{0}, reductions{0}, fences{0};

void count_loop(const char*, std::uint32_t, std::uint64_t*) {
  if (counting) ++loops;
}
void count_reduction(const char*, std::uint32_t, std::uint64_t*) {
  if (counting) ++reductions;
}
void count_fence(const char*, std::uint32_t, std::uint64_t*) {
  if (counting) ++fences;
}

/// Counts what work() allocates and starts.
template <class Work>
void count(const Work& work) {
  news = kokkos_allocations = loops = reductions = fences = 0;
  counting = true;
  work();
  counting = false;
}

void empty_loop(const ExecutionSpace& exec, const std::string& name) {
  Kokkos::parallel_for(name, Kokkos::RangePolicy<ExecutionSpace>(exec, 0, 1), KOKKOS_LAMBDA(int){});
}

void empty_reduction(const ExecutionSpace& exec, const std::string& name) {
  double sum = 0;
  Kokkos::parallel_reduce(name, Kokkos::RangePolicy<ExecutionSpace>(exec, 0, 1), KOKKOS_LAMBDA(int, double&){}, sum);
}

/// How often Kokkos itself calls operator new, by what has been started: found by starting one of each that does
/// nothing.
class NamesOfKokkos {
 public:
  NamesOfKokkos() {
    namespace Tools = Kokkos::Tools::Experimental;
    Tools::set_allocate_data_callback(count_kokkos_allocation);
    Tools::set_begin_parallel_for_callback(count_loop);
    Tools::set_begin_parallel_reduce_callback(count_reduction);
    Tools::set_begin_fence_callback(count_fence);
    const std::string name = "halograd::test_of_a_long_name";
    const ExecutionSpace exec;
    const auto fence = [&] { exec.fence(); };
    const auto loop = [&] { empty_loop(exec, name); };
    const auto reduction = [&] { empty_reduction(exec, name); };
    for (int time = 0; time < 2; ++time) {  // the first starts threads
      count(fence);
      per_fence_ = fences == 0 ? 0 : news / fences;
      count(loop);
      per_loop_ = news - fences * per_fence_;
      count(reduction);
      per_reduction_ = news - fences * per_fence_;
    }
  }
  ~NamesOfKokkos() {
    namespace Tools = Kokkos::Tools::Experimental;
    Tools::set_allocate_data_callback(nullptr);
    Tools::set_begin_parallel_for_callback(nullptr);
    Tools::set_begin_parallel_reduce_callback(nullptr);
    Tools::set_begin_fence_callback(nullptr);
  }
  NamesOfKokkos(const NamesOfKokkos&) = delete;
  NamesOfKokkos& operator=(const NamesOfKokkos&) = delete;

  /// Among what was counted last.
  [[nodiscard]] long news_of_kokkos() const {
    return loops * per_loop_ + reductions * per_reduction_ + fences * per_fence_;
  }

 private:
  long per_fence_ = 0, per_loop_ = 0, per_reduction_ = 0;
};

TEST(Allocation, CountsWhatIsAllocated) {
  Kokkos::Tools::Experimental::set_allocate_data_callback(count_kokkos_allocation);
  news = kokkos_allocations = 0;
  counting = true;
  const std::string text(1000, 'x');
  const long after_string = news;
  const Buffer<float> buffer("halograd::test", 10);
  counting = false;
  Kokkos::Tools::Experimental::set_allocate_data_callback(nullptr);
  EXPECT_EQ(after_string, 1);
  EXPECT_EQ(kokkos_allocations.load(), 1);
}

TEST(Allocation, NoneInATrainingStep) {
  const NamesOfKokkos kokkos;
  for (const std::string name : {"lenet5", "vgg_small", "resnet20", "resnet18"}) {
    NetworkConfig config;
    config.name = name;
    constexpr int batch = 2, classes = 10;
    const Shape input = name == "lenet5" ? Shape{28, 28, 1} : Shape{32, 32, 3};
    Network network(expand_network(config, classes), input, classes, batch);
    const Replica replica = network.make_replica(1);
    OptimizerConfig optimizer_config;
    optimizer_config.momentum = 0.9;
    const auto optimizer = make_optimizer(optimizer_config, network.parameter_count());
    const std::vector<float> images(input.values() * batch, 0.5F);
    const std::vector<std::int32_t> labels(batch, 1);
    const ExecutionSpace exec;
    for (int step = 1; step <= 4; ++step) {
      count([&] {
        network.train(exec, replica, {batch, images.data(), labels.data()}, 0);
        optimizer->step(exec, 0.01, step, 0, replica.parameters, replica.gradients);
      });
      if (step <= 2) continue;  // the first steps start threads and keep the names of kernels
      EXPECT_EQ(kokkos_allocations.load(), 0) << name << ", step " << step;
      EXPECT_GT(loops.load(), 0) << name << ", step " << step;
#if !defined(__NVCC__)  // which keeps lambdas for host and device on the heap
      EXPECT_EQ(news.load(), kokkos.news_of_kokkos()) << name << ", step " << step;
#endif
    }
  }
}

}  // namespace
}  // namespace halograd::allocation_test
