#include "convert/import.hpp"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>

#include "app/commands.hpp"
#include "app/shape_argument.hpp"
#include "support/json.hpp"
#include "support/progress.hpp"
#include "support/table.hpp"
#include "support/text.hpp"

namespace halograd {
namespace {

std::atomic<bool> stop_asked{false};

void ask_to_stop(int /*signal*/) {
  stop_asked = true;
}

/// A bar on a terminal; elsewhere a line each tenth.
class ImportProgress {
 public:
  explicit ImportProgress(bool quiet) : quiet_(quiet), line_(!quiet) {}

  void operator()(long done, long all) {
    if (quiet_) return;
    if (first_ < 0) first_ = done;
    const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    const double rate = seconds > 0 ? static_cast<double>(done - first_) / seconds : 0;
    const std::string text = format("%ld of %ld images, %.0f images/s", done, all, rate);
    if (line_.on_terminal()) {
      if (done == all || !line_.too_soon()) line_.draw(bar(static_cast<double>(done) / all, 40) + " " + text);
    } else if (done == all || 10 * done / all != tenth_) {
      tenth_ = 10 * done / all;
      std::printf("%s\n", text.c_str());
      std::fflush(stdout);
    }
  }

 private:
  using Clock = std::chrono::steady_clock;
  bool quiet_;
  ProgressLine line_;
  long first_ = -1, tenth_ = 0;
  Clock::time_point start_ = Clock::now();
};

/// What --broken may be.
struct BrokenChoice {
  const char* name;
  Fact<bool> skip;
};
constexpr BrokenChoice broken_choices[] = {{"refuse", false}, {"skip", true}};

struct ImportArguments {
  ImportOptions options;
  std::string size, broken = "refuse";
  bool json = false;
};

void print(const ImportResult& result, const ImportArguments& arguments) {
  if (arguments.json) {
    Json object;
    object["output"] = arguments.options.output;
    object["train_images"] = result.images[0];
    object["test_images"] = result.images[1];
    object["shape"] = std::vector<long>{result.height, result.width, result.channels};
    object["class_names"] = result.class_names;
    object["broken"] = result.broken;
    object["broken_before"] = result.broken_before;
    object["resumed"] = result.resumed;
    object["restarted"] = result.restarted;
    std::printf("%s\n", json_text(object).c_str());
    return;
  }
  if (result.restarted)
    std::printf("The partial file came from a different source or different options; the import started again\n");
  if (result.resumed > 0) std::printf("Continued after %ld images that were already converted\n", result.resumed);
  std::printf("%s: %ld images for training, %ld for testing, %dx%dx%d, %zu classes\n", arguments.options.output.c_str(),
              result.images[0], result.images[1], result.height, result.width, result.channels,
              result.class_names.size());
  if (result.broken_before > 0) std::printf("Skipped before: %ld images\n", result.broken_before);
  if (!result.broken.empty()) std::printf("Skipped: %zu images\n", result.broken.size());
  for (const std::string& message : result.broken) std::printf("  %s\n", message.c_str());
}

void import(ImportArguments& arguments) {
  ImportOptions& options = arguments.options;
  if (!arguments.size.empty()) {
    const Shape size = parse_size(arguments.size);
    options.height = size.height;
    options.width = size.width;
  }
  options.skip_broken = row_of(broken_choices, arguments.broken, "--broken").skip;
  for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, ask_to_stop);
  ImportResult result;
  {
    ImportProgress show(arguments.json);
    result = import_images(
        options, [&](long done, long all) { show(done, all); }, stop_asked);
  }
  print(result, arguments);
}

}  // namespace

void add_import(CLI::App& app) {
  auto arguments = std::make_shared<ImportArguments>();
  ImportOptions& options = arguments->options;
  CLI::App* command = app.add_subcommand("import", "Convert folders of images, IDX or CIFAR files into one HDF5 file");
  command
      ->add_option(
          "source", options.sources,
          "Folders with SOURCE/<class>/*.png or .jpg, with SOURCE/{train,test}/<class>/..., or with IDX or CIFAR files")
      ->required();
  command->add_option("--output", options.output, "File to write")->required()->type_name("FILE.h5");
  command
      ->add_option("--size", arguments->size, "Resize all images to this size (default: all must have the same size)")
      ->type_name("HEIGHTxWIDTH");
  command->add_option("--colour", options.colour, "grey, rgb, or auto: as in the first image")
      ->check(CLI::IsMember(names_of(image_colours())));
  command
      ->add_option("--test-fraction", options.test_fraction,
                   "Share of each class for the test set if SOURCE has no train and test folders (default: 0.1)")
      ->check(CLI::Range(0.0, 0.9));
  command->add_option("--seed", options.seed, "Seed that selects the test images and the order of the training images");
  command
      ->add_option("--broken", arguments->broken,
                   "What to do with images that cannot be used: list all and refuse, or skip them")
      ->check(CLI::IsMember(names_of(broken_choices)));
  command->add_option("--threads", options.threads, "Number of decoding threads (default: this machine's cores)")
      ->check(CLI::Range(1, 256));
  command->add_flag("--overwrite", options.overwrite, "Replace the output if it exists");
  command->add_flag("--json", arguments->json, "Print the result as one JSON object, and nothing else");
  command->callback([arguments] { import(*arguments); });
}

}  // namespace halograd
