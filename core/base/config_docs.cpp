#include "core/base/config_docs.hpp"

#include <fmt/format.h>

#include "core/base/descriptors.hpp"
#include "core/base/parameters.hpp"

namespace scr::config {
namespace {

constexpr std::string_view kHead =
    R"(<!-- Made by `scr_print_config --docs` from the tables in core/base. Do not edit. -->
# Parameters

`scr_print_config` prints the value of every parameter and where it comes from;
`scr_print_config SCR_FLUSH` prints one. With `--transparent` the defaults are those of programs that
do not call `SCR_*`.

## Where values come from

The first of these that sets a parameter wins:

1. the environment (an empty variable counts as not set),
2. the user file: the one that `SCR_CONF_FILE` in the environment names, else `.scrconf` in
   `SCR_PREFIX`,
3. `SCR_Config` calls of the program (the last call wins),
4. the system file of the administrators (its path is chosen when h5scr is built, CMake option
   `H5SCR_SYSTEM_CONFIG`),
5. the default.

The first process of the job reads environment and files, and all processes use what it found. Of
each kind of descriptor (`GROUPS`, `STORE`, `CKPT`, `ROUTE`) all lines come from the first source that
has any.

If the system file sets `SCR_CNTL_BASE`, users cannot change it. If it sets `SCR_CACHE_BASE` or has
`STORE` lines, users can choose among these directories but not add others. What a user sets in spite
of this is ignored with a warning.

A value that cannot be read, and an unknown name in a file or in `SCR_Config`, is an error. An unknown
`SCR_` name in the environment is a warning.

## Files

```
# a comment
SCR_FLUSH=4
SCR_PREFIX=/scratch/$USER/run1
SCR_JOB_NAME="a name with blanks"
STORE=/ssd GROUP=NODE COUNT=2
```

One `NAME=value` a line, without blanks around `=`; only descriptors have several. `#` starts a
comment at the start of a word. Double quotes keep blanks together; in single quotes nothing else has
a meaning either, which is best for regular expressions. `$NAME` and `${NAME}` stand for a variable of
the environment, and it is an error if that is not set; a `$` before anything else is itself. A
backslash before `"`, `'`, `\`, `$`, `#` or a blank takes its meaning; before anything else it is
itself. Within double quotes this holds for `"`, `\` and `$` only. No name may be set twice in a file.

## Values

- Flags are 0 or 1; no, off, false and yes, on, true are read too.
- Sizes are a number and a unit: `B`, `K`, `M`, `G`, `T`, `P`, `E`, also as `KB` or `KiB`, in any
  letter case. **Units are powers of 1024**, as always in SCR: `1KB`, `1KiB` and `1k` are 1024 bytes.
  `1.5GB` is fine. Without a unit it is bytes.
- Times are in seconds and may have a fraction. Percentages go from 0 to 100, with or without `%`.
- Words may be written in any letter case.

## All parameters

| Name | Value | Default | Meaning |
|---|---|---|---|
)";

constexpr std::string_view kDescriptors = R"(
"Native" programs call `SCR_*` themselves; in transparent mode an unmodified program runs with h5scr.
In transparent mode the default of a parameter is different where the table says so.

## Descriptors

A descriptor is one line of several `NAME=value`, in a file or in `SCR_Config`. Without `STORE` lines
there is one store, `SCR_CACHE_BASE`; without `CKPT` lines there is one `CKPT=0 INTERVAL=1`; both take
all else from the parameters that are the defaults below. Each checkpoint belongs to the enabled `CKPT`
line whose `INTERVAL` is the largest that divides its id, so that one of them must have `INTERVAL=1`.
`CKPT` lines count whatever `SCR_COPY_TYPE` is. A `CKPT` line without `STORE` uses `SCR_CACHE_BASE` if
that is set or a store, else the first `STORE` line.
)";

std::string code(std::string_view text) { return fmt::format("`{}`", text); }

std::string default_cell(const Parameter& parameter) {
  std::string cell = "not set";
  if (!parameter.default_note.empty()) cell = parameter.default_note;
  if (!parameter.default_text.empty()) cell = code(parameter.default_text);
  if (!parameter.transparent_default.empty()) {
    cell += fmt::format("; {} in transparent mode", code(parameter.transparent_default));
  }
  return cell;
}

std::string rights(const Parameter& parameter) {
  switch (parameter.set_by) {
    case SetBy::kAnyone:
      return "";
    case SetBy::kSystemFirst:
      return " The system file can fix it.";
    case SetBy::kEnvironmentOnly:
      return " Environment only.";
  }
  return "";
}

std::string field_row(const Field& field) {
  const std::string otherwise = field.default_text.empty() ? "not set" : code(field.default_text);
  return fmt::format("| {} | {} | {} | {} |\n", code(field.name), describe(field.spec),
                     field.required ? "must be given" : otherwise, field.description);
}

std::string descriptor_section(const DescriptorKind& kind) {
  std::string section =
      fmt::format("\n### {}\n\n{}\n\n```\n{}\n```\n\n", kind.name, kind.description, kind.example);
  section += "| Field | Value | Default | Meaning |\n|---|---|---|---|\n";
  section += fmt::format("| {} | {} | must be given | The {} itself. |\n",
                         code(fmt::format("{}=", kind.name)), describe(kind.key), kind.key_name);
  for (const Field& field : kind.fields) section += field_row(field);
  if (kind.any_field) section += "| any name | text | must be given | Value of that group. |\n";
  return section;
}

}  // namespace

std::string documentation() {
  std::string text(kHead);
  for (const Parameter& parameter : parameters()) {
    text += fmt::format("| {} | {} | {} | {}{} |\n", code(parameter.name), describe(parameter.spec),
                        default_cell(parameter), parameter.description, rights(parameter));
  }
  text += kDescriptors;
  for (const DescriptorKind& kind : descriptor_kinds()) text += descriptor_section(kind);
  return text;
}

}  // namespace scr::config
