// A program that does random things with MPI-IO whose results MPI defines, and writes down all that
// it sees. Run with one seed, with h5scr, without, and on a model of MPI-IO, it must see the same.
//
//   mpirun -n N random_io --seed S [--rounds R] [--model 1] [--basic 1]
//          [--derived 0] [--atomic 0] [--spread 1] FILE LOG
//
// FILE (and FILE.<n>) is what it writes; each rank writes LOG.<rank>. No rank reads what another
// may be writing, nobody reads beyond the end of a file (libraries differ in what they leave in the
// buffer), and shared pointers are used by one rank at a time or in order of ranks. Between a write
// and a read of the same bytes there is communication of some kind, not always MPI_File_sync:
// strictly, MPI promises nothing then, but every library on a local file system does it, and
// parallel HDF5 needs it. With --spread the ranks' regions are far apart, each across the border of
// two stripes of h5scr (core/shared_file/home.hpp), whose homes are on different nodes.
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/mpiio/io.hpp"

namespace scr::test {
namespace {

constexpr MPI_Offset kRegion = 512 * 1024;  // of the file for each rank, where it may write alone
constexpr MPI_Offset kStripe = 16 << 20;
constexpr MPI_Offset kBeforeBorder = 8 * 1024;  // so that most accesses reach across

int rank_of(MPI_Comm comm) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  return rank;
}
int size_of(MPI_Comm comm) {
  int size = 0;
  MPI_Comm_size(comm, &size);
  return size;
}

FILE* log_file = nullptr;
long step = 0;

__attribute__((format(printf, 1, 2))) void note(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::fprintf(log_file, "%ld ", step);
  std::vfprintf(log_file, format, arguments);
  std::fputc('\n', log_file);
  va_end(arguments);
}

std::uint64_t hash(const void* data, std::size_t size) {
  std::uint64_t value = 1469598103934665603U;
  const auto* bytes = static_cast<const unsigned char*>(data);
  for (std::size_t i = 0; i < size; ++i) value = (value ^ bytes[i]) * 1099511628211U;
  return value;
}

// --- one open file -------------------------------------------------------------------------------

struct View {
  MPI_Offset displacement = 0;
  OwnedType etype{MPI_BYTE};
  OwnedType filetype{MPI_BYTE};
  MPI_Offset etypes = 1;  // in a filetype
  MPI_Offset room = 0;    // etypes that may be used
};

struct Options {
  bool derived = true;  // random types, else bytes only
  bool atomic = true;
  bool model = false;
  bool spread = false;
  bool basic = false;  // without what Open MPI's libraries get wrong
};

class Tester {
 public:
  Tester(Io& io, MPI_Comm comm, std::string name, std::uint64_t seed, const Options& options)
      : io_(io),
        comm_(comm),
        name_(std::move(name)),
        options_(options),
        rank_(rank_of(comm)),
        size_(size_of(comm)),
        common_(seed),
        own_(seed * 1000003 + static_cast<std::uint64_t>(rank_) + 1),
        common_maker_(common_, DatatypeMaker::Use::kFile),
        own_maker_(own_, DatatypeMaker::Use::kFile) {}

  void run(int rounds) {
    open(MPI_MODE_CREATE | MPI_MODE_RDWR);
    io_.set_size(whole());
    for (int i = 0; i < rounds; ++i) {
      ++step;
      round();
    }
    read_all();
    io_.close();
    MPI_Barrier(comm_);
  }

 private:
  MPI_Offset region(int rank) const {
    return options_.spread ? (rank + 1) * kStripe - kBeforeBorder : rank * kRegion;
  }
  MPI_Offset whole() const { return region(size_ - 1) + kRegion; }
  int any(int low, int high) { return common_maker_.pick(low, high); }  // the same on all ranks
  int mine(int low, int high) { return own_maker_.pick(low, high); }

  void open(int amode) {
    io_.open(comm_, name_, amode);
    amode_ = amode;
    note("open %d amode %d size %d members %d", amode, io_.amode(), size_, io_.members());
  }

  void round() {
    switch (any(options_.basic ? 5 : 0, 15)) {
      case 0:
        return reopen();
      case 1:
        return resize();
      case 2:
      case 3:
        return shared_pointer();
      case 4:
        return ordered();
      case 5:
        return ask();
      case 6:
      case 7:
      case 8:
        return exchange();
      default:
        return regions();
    }
  }

  // --- views -------------------------------------------------------------------------------------

  // In the rank's own region, or for reading anywhere.
  View random_view(DatatypeMaker& maker, MPI_Offset start) {
    View view;
    view.displacement = start + maker.pick(0, 3000);
    if (options_.derived && maker.pick(0, 5) > 0) {
      view.etype = maker.named();
      view.filetype = OwnedType::derived(copy_of(view.etype.get()));
      if (maker.pick(0, 4) > 0) view.filetype = maker.derive(3, view.etype.get());
      if (!is_fit(view.filetype.get())) view.filetype = maker.derive(0, view.etype.get());
    }
    const Shape filetype(view.filetype.get());
    view.etypes = filetype.size / Shape(view.etype.get()).size;
    const MPI_Offset step_size = std::max<MPI_Offset>(filetype.extent, 1);
    view.room = (kRegion / 2 - filetype.true_end()) / step_size * view.etypes;
    view.room = std::min<MPI_Offset>(view.room, 20000);
    return view;
  }

  // As MPI wants filetypes: something, and in ascending order, copies included.
  static bool is_fit(MPI_Datatype filetype) {
    const std::vector<MPI_Offset> offsets = offsets_of(filetype);
    if (offsets.empty()) return false;
    for (std::size_t i = 1; i < offsets.size(); ++i) {
      if (offsets[i] <= offsets[i - 1]) return false;
    }
    return offsets.front() + Shape(filetype).extent > offsets.back();
  }

  // Elements dealt out to the ranks at random, again and again over the whole file or a region.
  View interleaved_view() {
    View view;
    const MPI_Offset start = options_.spread ? region(any(0, size_ - 1)) : 0;
    view.displacement = start + any(0, 3000);
    view.etype =
        OwnedType(std::vector{MPI_BYTE, MPI_INT, MPI_DOUBLE}[static_cast<std::size_t>(any(0, 2))]);
    const int elements = any(size_, 40);
    std::vector<int> at;
    for (int i = 0; i < elements; ++i) {
      if (any(0, size_) == rank_) at.push_back(i);
    }
    if (at.empty()) at.push_back(elements + rank_);
    MPI_Datatype indexed = MPI_DATATYPE_NULL;
    MPI_Datatype tile = MPI_DATATYPE_NULL;
    MPI_Type_create_indexed_block(static_cast<int>(at.size()), 1, at.data(), view.etype.get(),
                                  &indexed);
    const Shape etype(view.etype.get());
    const auto extent = static_cast<MPI_Aint>((elements + size_) * etype.extent);
    MPI_Type_create_resized(indexed, 0, extent, &tile);
    MPI_Type_free(&indexed);
    view.filetype = OwnedType::derived(tile);
    view.etypes = static_cast<MPI_Offset>(at.size());
    view.room = ((options_.spread ? kRegion : whole()) - 4000) / extent * view.etypes;
    view.room = std::min<MPI_Offset>(view.room, 20000);
    return view;
  }

  static MPI_Datatype copy_of(MPI_Datatype type) {
    MPI_Datatype copy = MPI_DATATYPE_NULL;
    MPI_Type_dup(type, &copy);
    return copy;
  }

  void set_view(const View& view) {
    io_.set_view(view.displacement, view.etype.get(), view.filetype.get());
  }

  // --- communication -----------------------------------------------------------------------------

  // Whoever comes out knows that all have come in.
  void meet() {
    switch (any(0, 11)) {
      case 0:
        io_.sync();
        MPI_Barrier(comm_);
        io_.sync();
        break;
      case 1: {
        int one = 1;
        int sum = 0;
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm_);
        break;
      }
      case 2:
        by_messages([this](int to) { MPI_Send(nullptr, 0, MPI_BYTE, to, 1, comm_); });
        break;
      case 3:
        by_messages([this](int to) { MPI_Ssend(nullptr, 0, MPI_BYTE, to, 1, comm_); });
        break;
      case 4:
        by_messages([this](int to) {
          MPI_Request request;
          MPI_Isend(nullptr, 0, MPI_BYTE, to, 1, comm_, &request);
          MPI_Wait(&request, MPI_STATUS_IGNORE);
        });
        break;
      case 5:
        by_messages([this](int to) {
          MPI_Request request;
          MPI_Send_init(nullptr, 0, MPI_BYTE, to, 1, comm_, &request);
          MPI_Start(&request);
          MPI_Wait(&request, MPI_STATUS_IGNORE);
          MPI_Request_free(&request);
        });
        break;
      case 6: {
        MPI_Request request;
        MPI_Ibarrier(comm_, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        break;
      }
      case 7: {
        std::vector<int> all(static_cast<std::size_t>(size_));
        MPI_Allgather(&rank_, 1, MPI_INT, all.data(), 1, MPI_INT, comm_);
        break;
      }
      case 8: {
        MPI_Comm copy = MPI_COMM_NULL;
        MPI_Comm_dup(comm_, &copy);
        MPI_Barrier(copy);
        MPI_Comm_free(&copy);
        break;
      }
      case 9:
        // By receives alone: a synchronous send ends when its message is taken.
        for (int to = 0; to < size_; ++to) in_turn(to);
        break;
      default:
        MPI_Barrier(comm_);
    }
  }

  template <typename Send>
  void by_messages(Send send) {
    for (int i = 1; i < size_; ++i) {
      if (rank_ == 0) MPI_Recv(nullptr, 0, MPI_BYTE, i, 1, comm_, MPI_STATUS_IGNORE);
      if (rank_ == i) send(0);
    }
    for (int i = 1; i < size_; ++i) {
      if (rank_ == 0) send(i);
      if (rank_ == i) MPI_Recv(nullptr, 0, MPI_BYTE, 0, 1, comm_, MPI_STATUS_IGNORE);
    }
  }

  // All ranks learn that `who` has come, because it takes their messages.
  void in_turn(int who) {
    for (int i = 0; i < size_; ++i) {
      if (i == who) continue;
      if (rank_ == who) MPI_Recv(nullptr, 0, MPI_BYTE, i, 2, comm_, MPI_STATUS_IGNORE);
      if (rank_ == i) MPI_Ssend(nullptr, 0, MPI_BYTE, who, 2, comm_);
    }
  }

  // --- reading and writing -----------------------------------------------------------------------

  // A piece of memory for some number of etypes.
  struct Piece {
    OwnedType type{MPI_BYTE};
    int count = 0;
    MPI_Offset etypes = 0;
    MPI_Offset offset = 0;
  };
  Piece random_piece(const View& view) {
    Piece piece;
    piece.type = OwnedType(view.etype.get());
    if (options_.derived && mine(0, 2) == 0) piece.type = own_maker_.derive(2, view.etype.get());
    // MPI's own library may serve what is opened to be read, and OMPIO divides by zero for types
    // without bytes.
    const bool full = options_.basic || (amode_ & MPI_MODE_RDONLY) != 0;
    if (full && Shape(piece.type.get()).size == 0) piece.type = OwnedType(view.etype.get());
    const MPI_Count etype = Shape(view.etype.get()).size;
    const MPI_Offset each = Shape(piece.type.get()).size / etype;
    const int most = mine(0, 3) == 0 ? 3000 : 60;
    piece.count = each > view.room ? 0 : mine(0, most);
    if (each > 0)
      piece.count = static_cast<int>(std::min<MPI_Offset>(piece.count, view.room / each));
    piece.etypes = each * piece.count;
    piece.offset = mine(0, static_cast<int>(view.room - piece.etypes));
    return piece;
  }

  void independent(bool write, const View& view) {
    static constexpr Way kWays[] = {Way::kAt, Way::kIndividual, Way::kStartAt, Way::kStart};
    const int how = mine(0, 3);
    move(kWays[how], write, view, how % 2 == 1);
  }

  void collective(bool write, const View& view) {
    static constexpr Way kWays[] = {Way::kAtAll, Way::kAll,        Way::kSplitAt,
                                    Way::kSplit, Way::kStartAtAll, Way::kStartAll};
    const int how = any(0, options_.basic ? 1 : 5);
    move(kWays[how], write, view, how % 2 == 1);
  }

  void move(Way way, bool write, const View& view, bool by_pointer) {
    const Piece piece = random_piece(view);
    if (by_pointer) seek(piece.offset);
    move(way, write, piece);
    if (by_pointer) tell_position();
  }

  void move(Way way, bool write, const Piece& piece) {
    Memory memory(piece.type.get(), piece.count, own_);
    MPI_Status status;
    io_.transfer({way, write, piece.offset, memory.origin(), piece.count, piece.type.get()},
                 status);
    int bytes = 0;
    int count = 0;
    MPI_Get_elements(&status, MPI_BYTE, &bytes);
    if (options_.basic && piece.etypes == 0)
      bytes = 0;  // Open MPI's ROMIO tells the offset
    else if (Shape(piece.type.get()).size > 0)
      MPI_Get_count(&status, piece.type.get(), &count);
    note("%s %d at %lld count %d: status %d bytes %d", write ? "write" : "read",
         static_cast<int>(way), static_cast<long long>(piece.offset), piece.count, count, bytes);
    if (!write) note("  got %016" PRIx64, hash(memory.bytes().data(), memory.bytes().size()));
  }

  void seek(MPI_Offset offset) {
    if (mine(0, 1) == 0) {
      io_.seek(offset, MPI_SEEK_SET);
    } else {
      io_.seek(offset - io_.position(), MPI_SEEK_CUR);
    }
  }
  void tell_position() {
    const MPI_Offset now = io_.position();
    note("  position %lld byte %lld", static_cast<long long>(now),
         static_cast<long long>(io_.byte_offset(now)));
  }

  // All write, each where nobody else does; then all read, wherever they like.
  void regions() {
    set_atomicity();
    {
      const bool interleaved = any(0, 2) == 0;
      const View view = interleaved ? interleaved_view() : random_view(own_maker_, region(rank_));
      set_view(view);
      for (int i = any(1, 3); i > 0; --i) {
        if (any(0, 1) == 0) {
          collective(true, view);
        } else if (mine(0, 3) > 0) {
          independent(true, view);
        }
      }
    }
    meet();
    const View view = random_view(own_maker_, region(mine(0, size_ - 1)));
    set_view(view);
    for (int i = any(1, 3); i > 0; --i) {
      if (any(0, 1) == 0) {
        collective(false, view);
      } else if (mine(0, 3) > 0) {
        independent(false, view);
      }
    }
    meet();
  }

  // The same without any other call of MPI-IO between writing and reading: others see what was
  // written because there was communication.
  void exchange() {
    io_.set_view(0, MPI_BYTE, MPI_BYTE);
    for (int i = any(1, 4); i > 0; --i) {
      View own;
      own.room = 20000;
      move_at(true, own, region(rank_));
      meet();
      move_at(false, own, region(mine(0, size_ - 1)));
      meet();
    }
  }
  void move_at(bool write, const View& view, MPI_Offset start) {
    Piece piece = random_piece(view);
    piece.offset += start;
    move(mine(0, 1) == 0 ? Way::kAt : Way::kStartAt, write, piece);
  }

  void set_atomicity() {
    if (!options_.atomic || any(0, 5) > 0) return;
    note("atomicity %d", io_.set_atomicity(any(0, 1)));
  }

  // --- shared pointers: views must be the same everywhere ----------------------------------------

  void shared_pointer() {
    const View view = random_view(common_maker_, region(any(0, size_ - 1)));
    set_view(view);
    for (int i = any(1, 5); i > 0; --i) {
      const int who = any(0, size_ - 1);
      const bool write = any(0, 1) == 0;
      const bool nonblocking = any(0, 1) == 0;
      const int count = any(0, static_cast<int>(std::min<MPI_Offset>(view.room / 5, 200)));
      if (who == rank_) {
        Piece piece;
        piece.type = OwnedType(view.etype.get());
        piece.count = count;
        move(nonblocking ? Way::kStartShared : Way::kShared, write, piece);
      }
      meet();
      tell_shared();
      MPI_Barrier(comm_);
    }
  }

  void tell_shared() {
    note("  shared position %lld", static_cast<long long>(io_.shared_position()));
  }

  void ordered() {
    const View view = random_view(common_maker_, region(any(0, size_ - 1)));
    set_view(view);
    const MPI_Offset most = view.room / (4 * size_);
    for (int i = any(1, 3); i > 0; --i) {
      if (any(0, 2) == 0) {
        const MPI_Offset to = any(0, static_cast<int>(std::min<MPI_Offset>(most, 1000)));
        io_.seek_shared(to, MPI_SEEK_SET);
        MPI_Barrier(comm_);
        tell_shared();
        MPI_Barrier(comm_);
      }
      const bool write = any(0, 1) == 0;
      const bool split = any(0, 1) == 0;
      Piece piece;
      piece.type = OwnedType(view.etype.get());
      piece.count = mine(0, static_cast<int>(std::min<MPI_Offset>(most, 300)));
      move(split ? Way::kSplitOrdered : Way::kOrdered, write, piece);
      meet();
      tell_shared();
      MPI_Barrier(comm_);
    }
  }

  // --- the rest ----------------------------------------------------------------------------------

  void reopen() {
    io_.close();
    MPI_Barrier(comm_);
    if (any(0, 1) == 0) {
      open(MPI_MODE_RDONLY);
      const View view = random_view(own_maker_, region(mine(0, size_ - 1)));
      set_view(view);
      collective(false, view);
      io_.close();
    }
    open(any(0, 1) == 0 ? MPI_MODE_RDWR : MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_APPEND);
    if ((amode_ & MPI_MODE_APPEND) != 0) tell_position();
  }

  void resize() {
    const MPI_Offset size = any(0, static_cast<int>(whole()));
    io_.set_size(size);
    note("size %lld", static_cast<long long>(io_.get_size()));
    MPI_Barrier(comm_);
    if (any(0, 1) == 0) {
      io_.preallocate(whole());
    } else {
      io_.set_size(whole());
    }
    note("size %lld", static_cast<long long>(io_.get_size()));
    MPI_Barrier(comm_);
  }

  void ask() {
    const View view = random_view(common_maker_, region(rank_));
    set_view(view);
    const Io::ViewShape shape = io_.get_view();
    note("view %lld etype %lld filetype %lld of %lld", static_cast<long long>(shape.displacement),
         static_cast<long long>(shape.etype_size), static_cast<long long>(shape.filetype_size),
         static_cast<long long>(shape.filetype_extent));
    const MPI_Offset offset = any(0, 10000);
    note("etype %lld is at %lld", static_cast<long long>(offset),
         static_cast<long long>(io_.byte_offset(offset)));
  }

  void read_all() {
    io_.set_view(0, MPI_BYTE, MPI_BYTE);
    MPI_Barrier(comm_);
    std::vector<unsigned char> bytes(static_cast<std::size_t>(whole()));
    MPI_Status status;
    io_.transfer({Way::kAtAll, false, 0, bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE},
                 status);
    note("whole file %016" PRIx64, hash(bytes.data(), bytes.size()));
  }

  Io& io_;
  MPI_Comm comm_;
  std::string name_;
  Options options_;
  int rank_;
  int size_;
  std::mt19937_64 common_;
  std::mt19937_64 own_;
  DatatypeMaker common_maker_;
  DatatypeMaker own_maker_;
  int amode_ = 0;
};

int run(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  Options options;
  std::uint64_t seed = 1;
  int rounds = 100;
  std::vector<std::string> names;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (!word.starts_with("--")) {
      names.push_back(word);
      continue;
    }
    const char* value = argv[++i];
    if (word == "--seed") seed = std::strtoull(value, nullptr, 10);
    if (word == "--rounds") rounds = std::atoi(value);
    if (word == "--derived") options.derived = std::atoi(value) != 0;
    if (word == "--basic") options.basic = std::atoi(value) != 0;
    if (word == "--model") options.model = std::atoi(value) != 0;
    if (word == "--spread") options.spread = std::atoi(value) != 0;
    if (word == "--atomic") options.atomic = std::atoi(value) != 0;
  }
  const int rank = rank_of(MPI_COMM_WORLD);
  if (names.size() != 2) {
    std::fprintf(stderr, "usage: random_io [--seed S] [--rounds R] FILE LOG\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  log_file = std::fopen((names[1] + "." + std::to_string(rank)).c_str(), "w");
  if (log_file == nullptr) MPI_Abort(MPI_COMM_WORLD, 2);
  std::setvbuf(log_file, nullptr, _IOLBF, BUFSIZ);
  MpiIo mpi;
  ModelIo model;
  Io& io = options.model ? static_cast<Io&>(model) : mpi;
  if (rank == 0) std::printf("seed %" PRIu64 "\n", seed);
  Tester(io, MPI_COMM_WORLD, names[0], seed, options).run(rounds);

  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
  MPI_Comm_set_errhandler(half, MPI_ERRORS_RETURN);
  Tester(io, half, names[0] + "." + std::to_string(rank % 2), seed + 1, options).run(rounds / 3);
  MPI_Comm_free(&half);
  Tester(io, MPI_COMM_SELF, names[0] + ".self" + std::to_string(rank), seed + 2, options)
      .run(rounds / 3);
  std::fclose(log_file);
  MPI_Finalize();
  return 0;
}

}  // namespace
}  // namespace scr::test

int main(int argc, char** argv) { return scr::test::run(argc, argv); }
