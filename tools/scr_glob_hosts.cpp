// scr_glob_hosts: arithmetic with lists of hosts.
#include <nlohmann/json.hpp>

#include "core/base/text.hpp"
#include "core/job/host_list.hpp"
#include "tools/command.hpp"

namespace {

using scr::job::Hosts;

constexpr const char* kName = "scr_glob_hosts";
constexpr const char* kFooter =
    "LIST is a list such as 'atlas[3,5-7,9-11],login01'. What is printed has the same form.\n"
    "Exit codes: 0 success; 1 LIST is not a list of hosts, or has no host number N; 2 wrong use.";

struct Arguments {
  std::string count, minus, intersection, compress, expand;
  std::vector<std::string> nth;
  std::string list;
  bool json = false;
};

// "LIST1:LIST2"
scr::Result<std::pair<Hosts, Hosts>> parse_pair(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) {
    return scr::invalid_argument(
        fmt::format("'{}' is not of the form LIST1:LIST2", scr::text::escape(text)));
  }
  SCR_ASSIGN_OR_RETURN(Hosts one, scr::job::expand_hosts(text.substr(0, colon)));
  SCR_ASSIGN_OR_RETURN(Hosts other, scr::job::expand_hosts(text.substr(colon + 1)));
  return std::pair(std::move(one), std::move(other));
}

void print(const Hosts& hosts, bool json) {
  if (json) {
    fmt::print("{}\n", nlohmann::json(hosts).dump());
  } else {
    fmt::print("{}\n", scr::job::compress_hosts(hosts));
  }
}

scr::Status run(const CLI::App& app, const Arguments& arguments) {
  if (app.count("--count") > 0) {
    SCR_ASSIGN_OR_RETURN(const Hosts hosts, scr::job::expand_hosts(arguments.count));
    fmt::print("{}\n", hosts.size());
  } else if (app.count("--nth") > 0) {
    SCR_ASSIGN_OR_RETURN(const Hosts hosts, scr::job::expand_hosts(arguments.nth[1]));
    const auto n = scr::text::parse_uint(arguments.nth[0]);
    if (!n || *n < 1 || *n > hosts.size()) {
      return scr::not_found(fmt::format("there is no host number {} in a list of {}",
                                        scr::text::escape(arguments.nth[0]), hosts.size()));
    }
    fmt::print("{}\n", hosts[*n - 1]);
  } else if (app.count("--minus") > 0) {
    SCR_ASSIGN_OR_RETURN(const auto lists, parse_pair(arguments.minus));
    print(scr::job::hosts_minus(lists.first, lists.second), arguments.json);
  } else if (app.count("--intersection") > 0) {
    SCR_ASSIGN_OR_RETURN(const auto lists, parse_pair(arguments.intersection));
    print(scr::job::hosts_in_both(lists.first, lists.second), arguments.json);
  } else if (app.count("--compress") > 0) {
    SCR_ASSIGN_OR_RETURN(const Hosts hosts, scr::job::expand_hosts(arguments.compress));
    print(hosts, arguments.json);
  } else {
    SCR_ASSIGN_OR_RETURN(const Hosts hosts, scr::job::expand_hosts(arguments.expand));
    if (arguments.json) {
      print(hosts, /*json=*/true);
      return {};
    }
    for (const std::string& host : hosts) fmt::print("{}\n", host);
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Counts, subtracts, intersects and prints lists of hosts.", kName};
  app.footer(kFooter);
  Arguments arguments;
  auto* what = app.add_option_group("what", "One of these");
  what->add_option("-c,--count", arguments.count, "Print the number of hosts of LIST")
      ->type_name("LIST");
  what->add_option("-n,--nth", arguments.nth, "Print the N-th host of LIST, from 1")
      ->type_name("N LIST")
      ->expected(2);
  what->add_option("-m,--minus", arguments.minus, "Print the hosts of LIST1 that LIST2 lacks")
      ->type_name("LIST1:LIST2");
  what->add_option("-i,--intersection", arguments.intersection,
                   "Print the hosts of LIST1 that are in LIST2, too")
      ->type_name("LIST1:LIST2");
  what->add_option("-z,--compress", arguments.compress, "Print LIST in its shortest form")
      ->type_name("LIST");
  what->add_option("-e,--expand", arguments.expand, "Print the hosts of LIST, one a line")
      ->type_name("LIST");
  what->require_option(1);
  app.add_flag("-j,--json", arguments.json, "Print lists as JSON arrays of names");
  if (const auto code = scr::tools::parse(app, argc, argv)) return *code;
  const scr::Status status = run(*what, arguments);
  return status.ok() ? scr::tools::kSuccess : scr::tools::fail(kName, status);
}
