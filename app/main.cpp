#include <CLI/CLI.hpp>

#include "app/commands.hpp"
#include "app/session.hpp"
#include "kernels/error.hpp"

int main(int argc, char** argv) {
  // MPI and Kokkos start when a subcommand asks for them and end with the session, after all that uses them.
  halograd::Session session(argc, argv);

  CLI::App app("halograd: convolutional-network training by neighbour averaging over MPI one-sided communication");
  app.require_subcommand(1);
  app.set_version_flag("--version", [] { return halograd::versions(); });
  halograd::add_train(app, session);
  halograd::add_evaluate(app, session);
  halograd::add_topology(app);
  halograd::add_inspect(app);

  try {
    app.parse(argc, argv);  // runs the subcommand
    return 0;
  } catch (const CLI::ParseError& error) {
    return halograd::launched_rank() == 0 ? app.exit(error) : error.get_exit_code();
  } catch (const halograd::CollectiveError& error) {
    return session.fail(error.what(), true);
  } catch (const std::exception& error) {
    return session.fail(error.what(), false);
  }
}
