#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "hdf5/handles.hpp"
#include "mpi/communicator.hpp"
#include "support/edge_record.hpp"

/// Group /edge of a metrics file: a row for each epoch and in-edge of a rank (docs/file-formats.md). A table of rows,
/// not of edges: graphs may change in a run.
namespace halograd {

struct EdgeColumn {
  const char* path;
  const char* unit;
  const char* description;
  bool integer;
  std::size_t width = 0;  ///< 0: (rows), else (rows, width)
  [[nodiscard]] constexpr std::size_t values() const { return width == 0 ? 1 : width; }  ///< in a row
};

inline constexpr std::array<EdgeColumn, 11> edge_columns{{
    {"/edge/epoch", "1", "row of /epoch that this row belongs to", true},
    {"/edge/from", "1", "rank that sent", true},
    {"/edge/to", "1", "rank that received, and counted", true},
    {"/edge/halos", "1", "versions that were read", true},
    {"/edge/skipped", "1", "versions that were overwritten, or lost, before they were read", true},
    {"/edge/left_out", "1", "mixes without this neighbour", true},
    {"/edge/bytes", "B", "bytes of the halos that were read", true},
    {"/edge/delay_seconds", "s", "mean over the halos: from the beginning of the put to the reading", false},
    {"/edge/least_delay_seconds", "s", "least of the same", false},
    {"/edge/wait_seconds", "s", "time that the receiver waited for this neighbour", false},
    {"/edge/staleness", "1", "mixes by age of the halo in steps: 0, 1, 2, 3, 4-7, 8-15, 16-31, 32 and more", true,
     staleness_bins},
}};
inline constexpr std::size_t edge_values = 10 + staleness_bins;

/// The values of a row, column after column.
using EdgeRow = std::array<double, edge_values>;

/// Collective: the rows of all ranks for an epoch, on rank 0, by receiver and then in its order.
std::vector<EdgeRow> gather_edges(const Communicator& comm, const std::vector<EdgeRecord>& records, std::int64_t epoch);

/// Makes the group with its empty datasets.
void make_edge_columns(const Hdf5File& file, const std::string& path);
/// At least the bytes by which `rows` rows let the file grow.
std::size_t edge_growth_bytes(std::size_t rows);
std::vector<Hdf5Dataset> open_edge_columns(const Hdf5File& file, const std::string& path);
/// Appends to the datasets and shows the rows to readers.
void append_edges(const std::vector<Hdf5Dataset>& datasets, const std::vector<EdgeRow>& rows, const std::string& path);
/// The rows of the first `epochs` epochs; none where the file is from before there was such a group.
std::vector<EdgeRow> read_edges(const Hdf5File& file, std::int64_t epochs, const std::string& path);

}  // namespace halograd
