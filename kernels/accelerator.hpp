#pragma once

#include <string>

/// Accelerators: the devices of NVIDIA or AMD that a build with CUDA or HIP computes on. They are asked here before
/// Kokkos starts, which would end the program with its own message. A build for cores has none.
namespace halograd {

/// Whose accelerators this build computes on.
enum class AcceleratorMaker { none, nvidia, amd };
AcceleratorMaker accelerator_maker();

/// How many this process sees; 0 on builds for cores. Throws Error where others see none, or where the driver is
/// missing or too old.
int accelerators();

/// Throws Error where this program has no code for the architecture of an accelerator.
void require_code_for(int accelerator);

/// Its address on the PCI bus, "0000:3b:00.0", under which all processes of a node know it; empty on builds for cores.
std::string accelerator_address(int accelerator);

/// Bytes that are left on the accelerator in use; infinite on builds for cores.
double free_accelerator_memory();

/// Whether the accelerator in use has matrix units that kernels use: NVIDIA's, AMD's from gfx908 on (MI100 and newer
/// Instinct).
bool has_matrix_units();

}  // namespace halograd
