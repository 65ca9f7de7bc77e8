#include "core/routing/file_hooks.h"

#include <dlfcn.h>

#include <cerrno>
#include <cstdio>
#include <exception>

#include "core/base/log.hpp"
#include "core/base/seam_guard.hpp"
#include "core/routing/file_hooks.hpp"
#include "core/routing/session.hpp"

namespace scr::routing {

namespace {

template <typename Body>
int hooked(Body body) {
  if (inside_seam()) return 0;  // h5scr's own call
  const int saved = errno;
  try {
    auto handled = body();
    if (handled.ok()) {
      errno = saved;
      return *handled ? 1 : 0;
    }
    // What the system says in silence: it is how programs ask whether a name is free.
    if (handled.status().errno_value() != EEXIST) log::error("{}", handled.status().message());
    errno = handled.status().errno_value() != 0 ? handled.status().errno_value() : EIO;
  } catch (const std::exception& error) {
    log::error("{}", error.what());
    errno = EIO;
  }
  return -1;
}

int hook_unlink(const char* path) {
  return hooked([&] { return Session::process().unlinked(path); });
}

int hook_rename(const char* from, const char* to, unsigned flags) {
  using Rename = Session::Rename;
  if ((flags & ~(RENAME_NOREPLACE | RENAME_EXCHANGE)) != 0) return 0;
  const Rename how = (flags & RENAME_EXCHANGE) != 0    ? Rename::kExchange
                     : (flags & RENAME_NOREPLACE) != 0 ? Rename::kNoReplace
                                                       : Rename::kReplace;
  return hooked([&] { return Session::process().renamed(from, to, how); });
}

int hook_link(const char* from, const char* to) {
  return hooked([&] { return Session::process().linked(from, to); });
}

int hook_truncate(const char* path, unsigned long long size) {
  return hooked([&] { return Session::process().truncated(path, size); });
}

unsigned long hook_opens() { return Session::opens_of_thread(); }

void hook_went_past(const char* path) {
  try {
    Session::process().went_past(path);
  } catch (const std::exception& error) {
    log::error("{}", error.what());
  }
}

void hook_starts_command(const char* command) {
  (void)hooked([&]() -> Result<bool> {
    Session::process().starts_command(command);
    return false;
  });
}

void hook_ends_command() {
  (void)hooked([&]() -> Result<bool> {
    Session::process().ends_command();
    return false;
  });
}

}  // namespace

bool register_file_hooks() {
  static const scr_file_hooks table = {hook_unlink,         hook_rename,      hook_link,
                                       hook_truncate,       hook_opens,       hook_went_past,
                                       hook_starts_command, hook_ends_command};
  using Register = void (*)(const scr_file_hooks*);
  auto* preload = reinterpret_cast<Register>(dlsym(RTLD_DEFAULT, "scr_register_file_hooks"));
  if (preload != nullptr) preload(&table);
  return preload != nullptr;
}

bool mpi_layer_is_here() { return dlsym(RTLD_DEFAULT, "scr_mpi_layer") != nullptr; }

bool legacy_layer_is_here() { return dlsym(RTLD_DEFAULT, "scr_legacy_list") != nullptr; }

}  // namespace scr::routing
