#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "app/commands.hpp"
#include "app/session.hpp"
#include "support/job_notes.hpp"
#include "support/text.hpp"

namespace {

/// CLI11 only says that a subcommand is required, also where a misspelt one was given.
int exit_with_usage_error(const CLI::App& app, const CLI::ParseError& error) {
  if (halograd::launched_rank() != 0) return error.get_exit_code();
  if (error.get_exit_code() != 0) halograd::note_for_job("error");
  const std::vector<std::string> unknown = app.remaining();
  if (!app.get_subcommands().empty() || unknown.empty() || error.get_exit_code() == 0) return app.exit(error);
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  const std::string suggestion = halograd::did_you_mean(unknown.front(), names);
  std::fprintf(stderr, "halograd: there is no subcommand '%s' (%s)%s\nRun with --help for more information.\n",
               unknown.front().c_str(), halograd::listed(names).c_str(), suggestion.c_str());
  return error.get_exit_code();
}

}  // namespace

int main(int argc, char** argv) {
  // MPI and Kokkos start when a subcommand asks for them and end with the session, after all that uses them.
  halograd::Session session(argc, argv);

  CLI::App app("halograd: convolutional-network training by neighbour averaging over MPI one-sided communication");
  app.require_subcommand(1);
  app.set_version_flag("--version", [] { return halograd::versions(); });
  halograd::add_train(app, session);
  halograd::add_evaluate(app, session);
  halograd::add_predict(app, session);
  halograd::add_segment(app, session);
  halograd::add_topology(app);
  halograd::add_inspect(app);
  halograd::add_import(app);
  halograd::add_convert(app, session);
  halograd::add_benchmark(app, session);
  halograd::add_jobscript(app, {argv, argv + argc});
  halograd::add_watch(app);
  halograd::add_simulate(app, session);
  halograd::add_plan(app, session);

  try {
    app.parse(argc, argv);  // runs the subcommand
  } catch (const CLI::ParseError& error) {
    session.end_with(exit_with_usage_error(app, error));
  } catch (const std::exception& error) {
    session.fail(error);
  }
  return session.status();
}
