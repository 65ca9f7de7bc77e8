// range_node: one end of the range service, for range_service.sh.
//
//   range_node serve DIRECTORY SHARED   publishes the files of DIRECTORY (a private one of this
//   node) as
//                                       ids 0, 1, ... in the order of their names, writes the key
//                                       and the endpoint to SHARED, and serves until SHARED/stop is
//                                       there
//   range_node read SHARED ID FILE      copies the file with the id to FILE
//   range_node probe SHARED             says whether the server answers
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "core/service/address.hpp"
#include "core/service/exports.hpp"

namespace {

using namespace scr;
using namespace scr::service;

Status write_text(const std::string& path, std::string_view text) {
  return file_system().write_file_atomically(path, std::as_bytes(std::span(text)), false, 0600);
}

Status publish_all(Exports& exports, const Directory& directory) {
  SCR_ASSIGN_OR_RETURN(const auto entries, file_system().list(At(directory, ".")));
  std::int64_t index = 0;
  for (const DirectoryEntry& entry : entries) {
    if (entry.type != FileInfo::Type::kRegular) continue;
    SCR_ASSIGN_OR_RETURN(const std::uint64_t id, make_id(0, 0, index++));
    SCR_RETURN_IF_ERROR(exports.publish(id, directory, entry.name));
  }
  return {};
}

Status serve(const std::string& path, const std::string& shared) {
  FileSystem& fs = file_system();
  SCR_ASSIGN_OR_RETURN(const auto directory, fs.open_directory(path));
  Exports exports(fs, *directory, {directory.get()});
  SCR_RETURN_IF_ERROR(publish_all(exports, *directory));
  SCR_ASSIGN_OR_RETURN(const Key key, Key::make());
  const char* setting = std::getenv("SCR_SERVICE_INTERFACE");
  SCR_ASSIGN_OR_RETURN(const std::string address, choose_address(setting ? setting : ""));
  SCR_ASSIGN_OR_RETURN(const auto server, RangeServer::start(address, key, exports.resolver()));
  SCR_RETURN_IF_ERROR(fs.write_file_atomically(shared + "/key", key.bytes(), false, 0600));
  SCR_RETURN_IF_ERROR(write_text(shared + "/endpoint", server->endpoint().to_text()));
  while (!fs.exists(shared + "/stop").value()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return {};
}

struct Contact {
  Endpoint endpoint;
  Key key;
};

Result<Contact> read_contact(const std::string& shared) {
  SCR_ASSIGN_OR_RETURN(const auto key_bytes, file_system().read_file(shared + "/key"));
  SCR_ASSIGN_OR_RETURN(const Key key, Key::from_bytes(key_bytes));
  SCR_ASSIGN_OR_RETURN(const auto text, file_system().read_file(shared + "/endpoint"));
  SCR_ASSIGN_OR_RETURN(
      const Endpoint endpoint,
      Endpoint::from_text({reinterpret_cast<const char*>(text.data()), text.size()}));
  return Contact{endpoint, key};
}

// Small and large pieces in turn, so that both ways of reading are taken.
Status copy(const std::string& shared, std::uint64_t id, const std::string& to) {
  SCR_ASSIGN_OR_RETURN(const Contact contact, read_contact(shared));
  SCR_ASSIGN_OR_RETURN(const auto from, open_remote(contact.endpoint, contact.key, id));
  SCR_ASSIGN_OR_RETURN(const auto file, file_system().open(to, OpenOptions::create_truncate()));
  std::vector<std::byte> buffer(3'000'000);
  std::uint64_t offset = 0;
  for (int turn = 0;; ++turn) {
    const std::span piece(buffer.data(), turn % 10 == 9 ? buffer.size() : 5000);
    SCR_ASSIGN_OR_RETURN(const std::size_t count, from->read(piece, offset));
    if (count == 0) return file->close();
    SCR_RETURN_IF_ERROR(file->write_all(piece.first(count), offset));
    offset += count;
  }
}

Status run(const std::vector<std::string>& words) {
  if (words.size() == 3 && words[0] == "serve") return serve(words[1], words[2]);
  if (words.size() == 4 && words[0] == "read")
    return copy(words[1], std::stoull(words[2]), words[3]);
  if (words.size() == 2 && words[0] == "probe") {
    SCR_ASSIGN_OR_RETURN(const Contact contact, read_contact(words[1]));
    RemoteOptions options;
    options.connect_timeout = std::chrono::seconds(3);
    return probe(contact.endpoint, contact.key, options);
  }
  return invalid_argument("see the head of range_node.cpp");
}

}  // namespace

int main(int argc, char** argv) {
  const Status status = run({argv + 1, argv + argc});
  if (!status.ok()) std::fprintf(stderr, "range_node: %s\n", status.to_string().c_str());
  return status.ok() ? 0 : 1;
}
