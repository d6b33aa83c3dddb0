#include "io/local_copies.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include "hdf5/files.hpp"
#include "hdf5/objects.hpp"
#include "io/checkpoint_layout.hpp"
#include "io/checkpoint_store.hpp"
#include "kernels/error.hpp"
#include "support/system_reason.hpp"
#include "support/text_file.hpp"

namespace halograd {
namespace {

namespace fs = std::filesystem;

constexpr int steps_kept = 2;  // while the newest is made, the one before has to be whole

/// A file of the folder: the state of one of `ranks` ranks.
struct Copy {
  std::int64_t step = 0;
  std::int32_t rank = 0, ranks = 0;
  std::int32_t holder = 0;   ///< the rank that sees it
  std::int32_t sharers = 1;  ///< consecutive ranks that share a row
  [[nodiscard]] int row() const { return rank / sharers; }
  [[nodiscard]] int rows() const { return ranks / sharers; }
  bool operator==(const Copy&) const = default;
};

std::string path_of(const std::string& folder, const Copy& copy) {
  std::ostringstream path;
  path << folder << "/step_" << copy.step << "_rank_" << copy.rank << "_of_" << copy.ranks;
  if (copy.sharers > 1) path << "_in_groups_of_" << copy.sharers;
  path << ".h5";
  return path.str();
}

std::optional<Copy> copy_named(const std::string& name) {
  long long step = 0;
  Copy copy;
  std::sscanf(name.c_str(), "step_%lld_rank_%d_of_%d_in_groups_of_%d.h5", &step, &copy.rank, &copy.ranks,
              &copy.sharers);
  copy.step = step;
  const bool same_name = fs::path(path_of("", copy)).filename() == name;
  const bool valid = same_name && copy.step >= 0 && copy.rank >= 0 && copy.rank < copy.ranks && copy.sharers > 0 &&
                     copy.ranks % copy.sharers == 0;
  return valid ? std::optional(copy) : std::nullopt;
}

/// Names of the files that are there; none where there is no folder.
std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

std::vector<Copy> copies_in(const std::string& folder, int holder) {
  std::vector<Copy> copies;
  for (const std::string& name : names_in(folder)) {
    if (std::optional<Copy> copy = copy_named(name)) {
      copy->holder = holder;
      copies.push_back(*copy);
    }
  }
  return copies;
}

/// What is wrong with a copy, as far as it can be read at all.
std::string copy_damage(const Communicator& self, const std::string& path) {
  try {
    return checkpoint_damage(self, path);
  } catch (const Error& error) {
    return error.what();
  }
}

/// Removes a file; one that cannot be removed does no harm.
void clear_away(const std::string& path) {
  std::error_code ignored;
  fs::remove(path, ignored);
}

std::string place_on_node(const std::string& place) {
  if (place.rfind('$', 0) != 0) return place;
  const std::size_t end = std::min(place.find('/'), place.size());
  const std::string name = place.substr(1, end - 1);
  const char* value = std::getenv(name.c_str());
  HALOGRAD_REQUIRE(value != nullptr && *value != '\0', "output.local_folder is \"", place,
                   "\", but the environment variable ", name, " is not set");
  return value + place.substr(end);
}

std::string name_file(const RunFolder& run) {
  return run.path + "/local_copies";
}

void write_file(const std::string& path, std::string_view bytes) {
  const std::string partial = path + ".partial";
  try {
    write_text(partial, bytes);
    publish_file(partial, path);
  } catch (const Error&) {
    clear_away(partial);
    throw;
  }
}

/// For each rank the one that keeps its copy: with the same place on the next node; none on a single node.
std::vector<int> keepers_of(const Communicator& comm) {
  std::vector<std::vector<int>> nodes(static_cast<std::size_t>(comm.ranks()));  // by their lowest rank
  for (int rank = 0; rank < comm.ranks(); ++rank) {
    nodes[static_cast<std::size_t>(comm.node_of_rank()[static_cast<std::size_t>(rank)])].push_back(rank);
  }
  std::erase_if(nodes, [](const std::vector<int>& ranks) { return ranks.empty(); });
  std::vector<int> keepers(static_cast<std::size_t>(comm.ranks()), MPI_PROC_NULL);
  if (nodes.size() == 1) return keepers;
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    const std::vector<int>&own = nodes[node], &next = nodes[(node + 1) % nodes.size()];
    for (std::size_t place = 0; place < own.size(); ++place) {
      keepers[static_cast<std::size_t>(own[place])] = next[place % next.size()];
    }
  }
  return keepers;
}

/// Collective: each rank's file goes to the rank that keeps its copy too. use(sender, its bytes) throws on no rank
/// alone.
template <class Use>
void send_to_keepers(const Communicator& comm, const std::string& own, const Use& use) {
  const std::vector<int> keepers = keepers_of(comm);
  const std::vector<std::uint64_t> lengths = comm.gather(static_cast<std::uint64_t>(own.size()));
  std::vector<std::size_t> senders_before(keepers.size());  // to the same keeper
  std::vector<std::vector<int>> senders(keepers.size());    // by keeper
  std::size_t rounds = 0;
  for (std::size_t rank = 0; rank < keepers.size(); ++rank) {
    if (keepers[rank] == MPI_PROC_NULL) continue;
    std::vector<int>& others = senders[static_cast<std::size_t>(keepers[rank])];
    senders_before[rank] = others.size();
    others.push_back(static_cast<int>(rank));
    rounds = std::max(rounds, others.size());
  }
  const auto me = static_cast<std::size_t>(comm.rank());
  for (std::size_t round = 0; round < rounds; ++round) {
    const bool sends = keepers[me] != MPI_PROC_NULL && senders_before[me] == round;
    const std::vector<int>& mine = senders[me];
    const int from = round < mine.size() ? mine[round] : MPI_PROC_NULL;
    std::string received(from == MPI_PROC_NULL ? 0 : lengths[static_cast<std::size_t>(from)], '\0');
    comm.exchange(std::span(own.data(), sends ? own.size() : 0), keepers[me],
                  std::span(received.data(), received.size()), from);
    comm.together([&] {
      if (from != MPI_PROC_NULL) use(from, received);
    });
  }
}

/// For one process of a node: leaves the copies of `ranks` ranks of the newest steps up to `step`, and nothing else.
void remove_old_copies(const std::string& folder, std::int64_t step, int ranks) {
  std::set<std::int64_t, std::greater<>> steps;
  const std::vector<Copy> copies = copies_in(folder, 0);
  for (const Copy& copy : copies) {
    if (copy.step <= step && copy.ranks == ranks) steps.insert(copy.step);
  }
  while (steps.size() > steps_kept) steps.erase(std::prev(steps.end()));
  for (const std::string& name : names_in(folder)) {
    const std::optional<Copy> copy = copy_named(name);
    if (!copy || copy->ranks != ranks || steps.count(copy->step) == 0) clear_away(folder + "/" + name);
  }
}

/// The one of `ranks` ranks that writes a copy's row to the checkpoint: consecutive rows each, alike in number as far
/// as can be.
int writer_of(const Copy& copy, int ranks) {
  return ((copy.row() + 1) * std::min(copy.rows(), ranks) - 1) / copy.rows();
}

/// The newest step after `step` of which there are copies of all ranks, by rank. Where several ranks see one, the rank
/// that is to write it goes first.
std::vector<Copy> newest_whole_step(std::vector<Copy> copies, std::int64_t step, int ranks) {
  std::erase_if(copies, [&](const Copy& copy) { return copy.step <= step; });
  const auto order = [&](const Copy& copy) {
    return std::tuple(-copy.step, copy.ranks, copy.sharers, copy.rank, copy.holder != writer_of(copy, ranks));
  };
  std::sort(copies.begin(), copies.end(), [&](const Copy& a, const Copy& b) { return order(a) < order(b); });
  std::vector<Copy> whole;
  for (const Copy& copy : copies) {
    const auto job = [](const Copy& each) { return std::tuple(each.step, each.ranks, each.sharers); };
    if (!whole.empty() && job(copy) != job(whole.front())) whole.clear();
    if (copy.rank == static_cast<int>(whole.size())) whole.push_back(copy);
    if (static_cast<int>(whole.size()) == copy.ranks) return whole;
  }
  return {};
}

void make_folder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error) fs::permissions(folder, fs::perms::owner_all, error);  // in /tmp, others' eyes are many
  HALOGRAD_REQUIRE(!error, "output.local_folder: ", folder, " cannot be made: ", system_reason(error.value()));
}

/// Collective: that each copy is where it is written from.
void bring_to_writers(const Communicator& comm, const std::string& folder, const std::vector<Copy>& copies) {
  for (const Copy& copy : copies) {
    const int writer = writer_of(copy, comm.ranks());
    if (copy.holder == writer) continue;
    const bool sends = comm.rank() == copy.holder, receives = comm.rank() == writer;
    std::string bytes;
    comm.together([&] {
      if (sends) bytes = read_text(path_of(folder, copy));
    });
    bytes.resize(comm.broadcast(bytes.size(), copy.holder));
    if (!receives && !sends) bytes.clear();
    comm.exchange(std::span<const char>(bytes.data(), sends ? bytes.size() : 0), sends ? writer : MPI_PROC_NULL,
                  std::span(bytes.data(), receives ? bytes.size() : 0), receives ? copy.holder : MPI_PROC_NULL);
    comm.together([&] {
      if (!receives) return;
      make_folder(folder);  // on a node that had none
      write_file(path_of(folder, copy), bytes);
    });
  }
}

/// A row, of the copies of the ranks that share it.
LocalCopy joined(std::vector<LocalCopy> parts) {
  if (parts.size() == 1) return std::move(parts.front());
  const ReplicaState& first = parts.front().memory.state;
  std::size_t parameters = 0;
  for (const LocalCopy& part : parts) parameters += part.memory.state.parameters.size();
  LocalCopy row{parts.front().header, ReplicaMemory(parameters, first.statistics.size(), first.optimizer.size())};
  ReplicaState& whole = row.memory.state;
  whole.sums = first.sums;
  Kokkos::deep_copy(whole.statistics, first.statistics);
  std::size_t begin = 0;
  for (const LocalCopy& part : parts) {
    const ReplicaState& own = part.memory.state;
    const std::size_t length = own.parameters.size();
    Kokkos::deep_copy(slice(whole.parameters, begin, length), own.parameters);
    for (std::size_t i = 0; i < whole.optimizer.size(); ++i) {
      Kokkos::deep_copy(slice(whole.optimizer[i], begin, length), own.optimizer[i]);
    }
    for (const SavedState& state : own.averager) row.memory.add(state);
    begin += length;
  }
  return row;
}

}  // namespace

std::string read_local_name(const RunFolder& run) {
  if (!fs::exists(name_file(run))) return "";
  std::string name = read_text(name_file(run));
  if (!name.empty() && name.back() == '\n') name.pop_back();
  const bool plain = name.rfind("halograd-", 0) == 0 && name.find('/') == std::string::npos;
  HALOGRAD_REQUIRE(plain, name_file(run), ": is \"", name, "\", expected the name of a folder, halograd-...");
  return name;
}

LocalCopy read_local_copy(const std::string& path) {
  const Hdf5Session session;
  const Hdf5File file = open_hdf5(path, H5F_ACC_RDONLY);
  const CheckpointLayout layout = read_layout(file, path);
  HALOGRAD_REQUIRE(layout.ranks == 1, path, ": has ", layout.ranks, " rows, expected that of one rank");
  std::int64_t bytes = (layout.parameters * (1 + layout.optimizer_buffers) + layout.statistics) * 4;
  for (const StateLayout& each : layout.averager) bytes += each.length * 8;
  require_held_together(file, static_cast<std::size_t>(bytes), "its rows", path);
  LocalCopy copy{read_header(file, path),
                 ReplicaMemory(static_cast<std::size_t>(layout.parameters), static_cast<std::size_t>(layout.statistics),
                               static_cast<std::size_t>(layout.optimizer_buffers))};
  for (const StateLayout& each : layout.averager) {
    copy.memory.add(each.name, each.type, static_cast<std::size_t>(each.length));
  }
  const std::vector<std::vector<Numbers>> places = replica_buffers(copy.memory.state);
  const auto keep = [&](std::size_t dataset, std::int64_t, std::int64_t part, const Numbers& values) {
    const auto from = bytes_of(values);
    std::copy(from.begin(), from.end(), bytes_of(places[dataset][static_cast<std::size_t>(part)]).begin());
  };
  const std::vector<std::string> damaged = read_every_row(file, layout, 0, 1, keep, path);
  HALOGRAD_REQUIRE(damaged.empty(), path, ": ", damaged.front(), ": the checksum is wrong; the file is damaged");
  copy.memory.state.sums = read_epoch_sums(file, 1, path).front();
  return copy;
}

std::string local_folder(const Communicator& comm, const std::string& place, const RunFolder& run) {
  std::string name, on_node;
  comm.together([&] {
    on_node = place_on_node(place);
    if (comm.rank() == 0) name = read_local_name(run);
  });
  name = comm.broadcast(name);
  return name.empty() ? "" : on_node + "/" + name;
}

std::string rename_local_folder(const Communicator& comm, const std::string& place, const RunFolder& run) {
  const std::string before = local_folder(comm, place, run);
  if (!before.empty()) discard_local_copies(comm, before, run);
  comm.together([&] {
    if (comm.rank() != 0) return;
    std::random_device random;
    std::array<char, 32> name{};
    std::snprintf(name.data(), name.size(), "halograd-%08x%08x\n", random(), random());
    write_file(name_file(run), name.data());
  });
  return local_folder(comm, place, run);
}

std::string make_local_folder(const Communicator& comm, const std::string& place, const RunFolder& run) {
  std::string folder = rename_local_folder(comm, place, run);
  comm.together([&] { make_folder(folder); });
  return folder;
}

void write_local_copies(const Communicator& comm, const std::string& folder, const CheckpointHeader& header,
                        const ReplicaState& state) {
  const bool several_nodes = comm.nodes() > 1;
  const int sharers = state.share ? state.share->ranks : 1;
  const auto path_of_rank = [&](int rank) { return path_of(folder, {header.step, rank, comm.ranks(), rank, sharers}); };
  ReplicaState alone = state;
  alone.share.reset();
  try {
    std::string bytes;
    comm.together([&] {
      make_folder(folder);
      const std::string own = path_of_rank(comm.rank());
      write_checkpoint(Communicator(MPI_COMM_SELF), own, header, alone, {}, {});
      if (several_nodes) bytes = read_text(own);
    });
    if (several_nodes) {
      send_to_keepers(comm, bytes,
                      [&](int sender, const std::string& received) { write_file(path_of_rank(sender), received); });
    }
  } catch (const CollectiveError&) {
    if (comm.node_rank() == 0) remove_old_copies(folder, header.step - 1, comm.ranks());
    throw;
  }
  if (comm.node_rank() == 0) remove_old_copies(folder, header.step, comm.ranks());
  comm.barrier();  // none begins with the next step's
}

std::string restore_local_copies(const Communicator& comm, const std::string& folder, std::int64_t step,
                                 const RunFolder& run, const std::vector<NamedTensor>& parameters,
                                 const std::vector<NamedTensor>& statistics, bool compress) {
  const Communicator self(MPI_COMM_SELF);
  std::vector<Copy> copies = copies_in(folder, comm.rank()), whole;
  for (bool damaged = true; damaged;) {
    whole = comm.join_on_root(copies);
    if (comm.rank() == 0) whole = newest_whole_step(std::move(whole), step, comm.ranks());
    whole = comm.broadcast(whole);
    const auto is_damaged = [&](const Copy& copy) {
      const bool chosen = std::find(whole.begin(), whole.end(), copy) != whole.end();
      return chosen && !copy_damage(self, path_of(folder, copy)).empty();
    };
    damaged = comm.largest(static_cast<int>(std::erase_if(copies, is_damaged))) > 0;
  }
  if (whole.empty()) return "";
  bring_to_writers(comm, folder, whole);

  const int writers = std::min(whole.front().rows(), comm.ranks());
  std::string path = run.checkpoint(whole.front().step);
  const OwnedComm writing = comm.split(comm.rank() < writers ? 0 : 1);
  comm.together([&] {
    if (comm.rank() == 0) prepare_checkpoints(run);
  });
  comm.together_in_parts([&] {
    if (comm.rank() >= writers) return;
    std::vector<LocalCopy> rows;
    std::vector<ReplicaState> states;
    writing.together([&] {
      std::vector<LocalCopy> parts;
      for (const Copy& copy : whole) {
        if (writer_of(copy, comm.ranks()) != comm.rank()) continue;
        parts.push_back(read_local_copy(path_of(folder, copy)));
        if (static_cast<int>(parts.size()) < copy.sharers) continue;
        states.push_back(rows.emplace_back(joined(std::exchange(parts, {}))).memory.state);
      }
    });
    write_checkpoint(writing, path, rows.front().header, states, parameters, statistics, compress);
  });
  return path;
}

void discard_local_copies(const Communicator& comm, const std::string& folder, const RunFolder& run) {
  comm.barrier();
  if (comm.rank() == 0) clear_away(name_file(run));
  std::error_code ignored;
  fs::remove_all(folder, ignored);
}

}  // namespace halograd
