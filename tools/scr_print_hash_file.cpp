// scr_print_hash_file: shows the content of hash files.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/base/hash_file.hpp"
#include "tools/command.hpp"

namespace {

// A hash whose elements are all empty is a list of values; one value alone is shown as a string.
nlohmann::ordered_json to_json(const scr::Hash& hash) {
  if (hash.size() == 1 && hash.elements().front().hash.empty()) return hash.elements().front().key;
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const auto& element : hash.elements()) object[element.key] = to_json(element.hash);
  return object;
}

std::string render(const scr::Hash& hash, bool tree, bool json, int indent) {
  if (json) {
    return to_json(hash).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  }
  return tree ? hash.print_tree() : hash.print(indent);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Prints the content of h5scr hash files (filemaps, summaries, index, ...)."};
  app.footer("Exit codes: 0 all files printed, 1 a file is missing or damaged, 2 wrong arguments.");
  std::vector<std::string> files;
  bool tree = false;
  bool json = false;
  int indent = 2;
  app.add_option("file", files, "Hash files to print")->required();
  auto* tree_flag = app.add_flag("-t,--tree", tree, "Draw a tree, single values as 'key = value'");
  app.add_flag("-j,--json", json, "Print JSON")->excludes(tree_flag);
  app.add_option("-i,--indent", indent, "Spaces per level")->check(CLI::Range(0, 16));
  if (const auto code = scr::tools::parse(app, argc, argv)) return *code;

  int exit_code = 0;
  for (const std::string& file : files) {
    auto hash = scr::read_hash_file(scr::file_system(), file);
    if (!hash.ok()) {
      std::fprintf(stderr, "scr_print_hash_file: %s\n", hash.status().to_string().c_str());
      exit_code = 1;
      continue;
    }
    if (files.size() > 1 && !json) std::printf("%s:\n", file.c_str());
    std::fputs(render(*hash, tree, json, indent).c_str(), stdout);
  }
  return exit_code;
}
