// A file that is read from another node until that cannot be done any more, and then from another
// copy of the same bytes: the dataset it is of may leave the cache while it is open.
#pragma once

#include <functional>
#include <memory>

#include "core/base/filesystem.hpp"

namespace scr::routing {

// `elsewhere` opens the other copy. Any thread may use the file. Fails, with what was wrong with
// `first`, if neither can be opened.
Result<std::unique_ptr<File>> open_with_fallback(
    Result<std::unique_ptr<File>> first, std::function<Result<std::unique_ptr<File>>()> elsewhere);

}  // namespace scr::routing
