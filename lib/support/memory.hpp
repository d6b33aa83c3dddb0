#pragma once

#include <cstddef>
#include <string>

namespace halograd {

/// Bytes of this process that have been in memory at once at most, since it started or since the last
/// restart_peak_memory.
double peak_memory();

/// Lets peak_memory start again from what is in memory now, where the system can.
void restart_peak_memory();

/// Bytes that this process can still take: of the machine's, and of its control group's limit (a Slurm job's --mem).
/// Infinite where the system does not tell.
double available_memory();

/// Throws Error, naming `what` needs them, where fewer bytes are left, of the process' own limits (ulimit) too: a
/// process that takes more than there is is killed without a word.
void require_memory(double bytes, const std::string& what);

/// The same of the memory that kernels work in: an accelerator's on builds for those.
void require_kernel_memory(double bytes, const std::string& what);

/// Asks the system to back this range, not yet written, by large pages (2 MiB on x86-64), where it has them:
/// convolutions walk tensors in strides that take an entry of the address cache a small page.
void prefer_large_pages(void* begin, std::size_t bytes);

}  // namespace halograd
