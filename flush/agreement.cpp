#include "flush/agreement.hpp"

#include <fmt/format.h>

namespace scr::flush {

Status agree_all(Communicator& comm, const Status& mine, std::string_view what) {
  const std::int64_t none = comm.size();
  const std::int64_t first =
      comm.all_reduce(std::int64_t{mine.ok() ? none : comm.rank()}, ReduceOp::kMin);
  if (first == none) return {};
  const std::string text =
      comm.broadcast_string(std::string(mine.message()), static_cast<int>(first));
  auto code = static_cast<std::int64_t>(comm.rank() == first ? mine.code() : StatusCode::kOk);
  code = comm.all_reduce(code, ReduceOp::kMax);
  if (!mine.ok()) return mine;
  return {static_cast<StatusCode>(code),
          fmt::format("{} failed on rank {}: {}", what, first, text)};
}

}  // namespace scr::flush
