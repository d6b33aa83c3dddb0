// A training step allocates nothing: neither through operator new nor through Kokkos.

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

void count_kokkos_allocation(Kokkos_Profiling_SpaceHandle, const char*, const void*, std::uint64_t) {
  if (counting) ++kokkos_allocations;
}

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
    Kokkos::Tools::Experimental::set_allocate_data_callback(count_kokkos_allocation);
    for (int step = 1; step <= 4; ++step) {
      news = kokkos_allocations = 0;
      counting = step > 2;  // the first steps start threads and keep the names of kernels
      network.train(exec, replica, {batch, images.data(), labels.data()}, 0);
      optimizer->step(exec, 0.01, step, 0, replica.parameters, replica.gradients);
      counting = false;
      EXPECT_EQ(kokkos_allocations.load(), 0) << name << ", step " << step;
#if !defined(__NVCC__)  // which keeps lambdas for host and device on the heap
      EXPECT_EQ(news.load(), 0) << name << ", step " << step;
#endif
    }
    Kokkos::Tools::Experimental::set_allocate_data_callback(nullptr);
  }
}

}  // namespace
}  // namespace halograd::allocation_test
