#include "core/api/program_references.hpp"

#include <elf.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

namespace scr {

namespace {

using Relocations = std::span<const ElfW(Rela)>;

// Of the dynamic section of an object, what is needed to name the symbols that it uses.
struct Tables {
  const ElfW(Sym) * symbols = nullptr;
  const char* names = nullptr;
  std::array<Relocations, 2> relocations;  // of data, and of calls
};

// Some loaders put addresses there, others leave what is in the file, counted from its beginning.
template <typename T>
const T* place(const dl_phdr_info& object, ElfW(Addr) address) {
  const ElfW(Addr) from = address < object.dlpi_addr ? object.dlpi_addr : 0;
  return reinterpret_cast<const T*>(from + address);  // NOLINT: the loader says where it is
}

// Where relocations have another form (32-bit systems), none are found.
Tables read_tables(const dl_phdr_info& object, const ElfW(Dyn) * dynamic) {
  Tables tables;
  std::array<const ElfW(Rela)*, 2> first = {};
  std::array<std::size_t, 2> bytes = {};
  bool known_form = true;
  for (; dynamic->d_tag != DT_NULL; ++dynamic) {
    const ElfW(Addr) value = dynamic->d_un.d_ptr;
    switch (dynamic->d_tag) {
      case DT_SYMTAB:
        tables.symbols = place<ElfW(Sym)>(object, value);
        break;
      case DT_STRTAB:
        tables.names = place<char>(object, value);
        break;
      case DT_RELA:
        first[0] = place<ElfW(Rela)>(object, value);
        break;
      case DT_RELASZ:
        bytes[0] = value;
        break;
      case DT_JMPREL:
        first[1] = place<ElfW(Rela)>(object, value);
        break;
      case DT_PLTRELSZ:
        bytes[1] = value;
        break;
      case DT_PLTREL:
        known_form = value == DT_RELA;
        break;
      default:
        break;
    }
  }
  for (std::size_t i = 0; i < first.size(); ++i) {
    const bool usable = first[i] != nullptr && (i == 0 || known_form);
    if (usable) tables.relocations[i] = Relocations(first[i], bytes[i] / sizeof(ElfW(Rela)));
  }
  return tables;
}

bool uses(const Tables& tables, std::string_view function) {
  if (tables.symbols == nullptr || tables.names == nullptr) return false;
  constexpr int kSymbolShift = sizeof(ElfW(Addr)) == 8 ? 32 : 8;  // ELF64_R_SYM, ELF32_R_SYM
  return std::ranges::any_of(tables.relocations, [&](const Relocations& list) {
    return std::ranges::any_of(list, [&](const ElfW(Rela) & relocation) {
      const ElfW(Sym)& symbol = tables.symbols[relocation.r_info >> kSymbolShift];
      return symbol.st_shndx == SHN_UNDEF && tables.names + symbol.st_name == function;
    });
  });
}

struct Search {
  std::string_view function;
  bool found = false;
};

int look_at(dl_phdr_info* object, std::size_t /*size*/, void* data) {
  auto& search = *static_cast<Search*>(data);
  for (const ElfW(Phdr) & part : std::span(object->dlpi_phdr, object->dlpi_phnum)) {
    if (part.p_type != PT_DYNAMIC) continue;
    // Unlike what it holds, its own address always counts from the beginning.
    const auto* dynamic =
        reinterpret_cast<const ElfW(Dyn)*>(object->dlpi_addr + part.p_vaddr);  // NOLINT
    search.found = search.found || uses(read_tables(*object, dynamic), search.function);
  }
  return search.found ? 1 : 0;
}

}  // namespace

bool refers_to(std::string_view function) {
  Search search{function};
  dl_iterate_phdr(look_at, &search);
  return search.found;
}

}  // namespace scr
