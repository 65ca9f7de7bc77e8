#include "redundancy/pass.hpp"

#include <algorithm>
#include <cstring>

#include "redundancy/buffer_pool.hpp"

namespace scr::redundancy {
namespace {

constexpr int kStripeTags =
    2048;  // stripes with equal tags are told apart by the order of their messages

struct Step {
  const Stripe* stripe = nullptr;
  int tag = 0;                           // of messages to the head; those from it have the next one
  std::uint64_t offset = 0;              // of the piece in the stripe
  std::size_t length = 0;                // of the piece
  std::size_t wanted = 0;                // bytes of it that some output has
  bool zero = false;                     // all inputs are known to be zeros, so the outputs are too
  int head = 0;                          // rank of the process that computes
  std::vector<const std::byte*> inputs;  // at the head; null for zeros
  std::vector<std::byte*> outputs;       // at owners that are not the head
  std::vector<std::byte*> buffers;       // all that are in use
  std::vector<Request> arrivals;         // inputs at the head
  std::vector<Request> results;          // outputs at their owners, in the order of `outputs`
  std::vector<Request> departures;
};

class Pass {
 public:
  Pass(Communicator& comm, const std::vector<int>& hosts, const Plan& plan,
       std::span<LocalMember> mine, std::size_t piece_size,
       const std::function<void(std::uint64_t)>& progress)
      : comm_(comm),
        hosts_(hosts),
        plan_(plan),
        mine_(mine),
        piece_size_(piece_size),
        progress_(progress),
        pool_(piece_size),
        round_(std::max<std::size_t>(1, plan.size())) {
    steps_.resize(2 * round_ + 1);
  }

  // Three stages, each one round of stripes behind the one before. A stage of a step waits only for
  // earlier stages of that step at other processes, and those for earlier steps: so nobody waits in
  // a circle.
  void run() {
    std::size_t begun = 0;
    for (; next_step(steps_[begun % steps_.size()]); ++begun) {
      begin(steps_[begun % steps_.size()]);
      if (begun >= round_) compute(steps_[(begun - round_) % steps_.size()]);
      if (begun >= 2 * round_) finish(steps_[(begun - 2 * round_) % steps_.size()]);
    }
    drain(begun);
  }

 private:
  void drain(std::size_t begun) {
    for (std::size_t ahead = 0; ahead < 2 * round_; ++ahead) {
      const std::size_t virtual_step = begun + ahead;
      if (virtual_step >= round_ && virtual_step - round_ < begun) {
        compute(steps_[(virtual_step - round_) % steps_.size()]);
      }
      if (virtual_step >= 2 * round_) finish(steps_[(virtual_step - 2 * round_) % steps_.size()]);
    }
  }

  void count(std::size_t bytes) {
    bytes_ += bytes;
    if (progress_) progress_(bytes_);
  }
  bool is_here(int member) const {
    return hosts_[static_cast<std::size_t>(member)] == comm_.rank();
  }
  bool is_head(const Step& step) const { return step.head == comm_.rank(); }
  LocalMember& local(int member) { return *std::ranges::find(mine_, member, &LocalMember::index); }
  LogicalFile& file_of(const Slot& slot) {
    LocalMember& member = local(slot.member);
    return slot.region == Region::kFiles ? member.files : member.payload;
  }
  std::byte* take_buffer(Step& step) {
    step.buffers.push_back(pool_.take());
    return step.buffers.back();
  }

  bool next_step(Step& step);
  void describe(Step& step, std::size_t stripe, std::size_t piece);
  void begin(Step& step);
  void expect_inputs(Step& step);
  void expect_outputs(Step& step);
  void provide_inputs(Step& step);
  const std::byte* load(Step& step, const Slot& slot);
  void compute(Step& step);
  void deliver(Step& step, const Slot& slot, const std::byte* data);
  void finish(Step& step);
  void store(const Step& step, const Slot& slot, const std::byte* data);

  Communicator& comm_;
  const std::vector<int>& hosts_;
  const Plan& plan_;
  std::span<LocalMember> mine_;
  std::size_t piece_size_;
  const std::function<void(std::uint64_t)>& progress_;
  std::uint64_t bytes_ = 0;  // read and written here
  BufferPool pool_;
  std::size_t round_;
  std::vector<Step> steps_;  // a ring
  std::size_t next_stripe_ = 0;
  std::uint64_t next_piece_ = 0;
};

// The sequence of steps. False at its end.
bool Pass::next_step(Step& step) {
  bool any_left = next_stripe_ != 0;  // the round so far has had a step, or may still have one
  while (true) {
    if (next_stripe_ == plan_.size()) {
      if (!any_left) return false;
      any_left = false;
      next_stripe_ = 0;
      ++next_piece_;
    }
    const std::size_t stripe = next_stripe_++;
    if (next_piece_ * piece_size_ >= plan_[stripe].length) continue;
    describe(step, stripe, static_cast<std::size_t>(next_piece_));
    return true;
  }
}

void Pass::describe(Step& step, std::size_t stripe, std::size_t piece) {
  const Stripe& of = plan_[stripe];
  step.stripe = &of;
  step.tag = kFirstDataTag + 2 * static_cast<int>(stripe % kStripeTags);
  step.offset = std::uint64_t{piece} * piece_size_;
  step.length =
      static_cast<std::size_t>(std::min<std::uint64_t>(piece_size_, of.length - step.offset));
  step.wanted = 0;
  for (const Slot& output : of.outputs) {
    step.wanted = std::max(step.wanted, output.real(step.offset, step.length));
  }
  step.zero = std::ranges::all_of(
      of.inputs, [&](const Slot& input) { return input.real(step.offset, step.wanted) == 0; });
  step.head = of.heads.empty()
                  ? -1
                  : hosts_[static_cast<std::size_t>(of.heads[(piece + stripe) % of.heads.size()])];
}

void Pass::begin(Step& step) {
  if (is_head(step)) expect_inputs(step);
  expect_outputs(step);
  provide_inputs(step);
}

void Pass::expect_inputs(Step& step) {
  for (const Slot& input : step.stripe->inputs) {
    const std::size_t real = input.real(step.offset, step.wanted);
    std::byte* buffer = nullptr;
    if (!is_here(input.member) && real > 0) {
      buffer = take_buffer(step);
      std::memset(buffer + real, 0, step.wanted - real);
      step.arrivals.push_back(comm_.start_receive(
          {buffer, real}, hosts_[static_cast<std::size_t>(input.member)], step.tag));
    }
    step.inputs.push_back(buffer);
  }
}

void Pass::expect_outputs(Step& step) {
  if (step.zero || is_head(step)) return;
  for (const Slot& output : step.stripe->outputs) {
    const std::size_t real = output.real(step.offset, step.wanted);
    if (!is_here(output.member) || real == 0) continue;
    step.outputs.push_back(take_buffer(step));
    step.results.push_back(
        comm_.start_receive({step.outputs.back(), real}, step.head, step.tag + 1));
  }
}

void Pass::provide_inputs(Step& step) {
  for (std::size_t i = 0; i < step.stripe->inputs.size(); ++i) {
    const Slot& input = step.stripe->inputs[i];
    if (!is_here(input.member)) continue;
    const std::byte* data = load(step, input);
    const std::size_t real = input.real(step.offset, step.wanted);
    if (real == 0) continue;
    if (is_head(step)) {
      step.inputs[i] = data;
    } else {
      step.departures.push_back(comm_.start_send({data, real}, step.head, step.tag));
    }
  }
  for (const Slot& slot : step.stripe->checked) {
    if (is_here(slot.member)) load(step, slot);
  }
}

// Reads the piece of a slot, with zeros after its end.
const std::byte* Pass::load(Step& step, const Slot& slot) {
  const std::size_t real = slot.real(step.offset, step.length);
  if (real == 0) return nullptr;
  std::byte* buffer = take_buffer(step);
  Status& status = local(slot.member).status;
  if (status.ok()) status = file_of(slot).read(slot.offset + step.offset, {buffer, real});
  const std::size_t good = status.ok() ? real : 0;
  count(good);
  std::memset(buffer + good, 0, step.length - good);
  return buffer;
}

void Pass::compute(Step& step) {
  if (!is_head(step) || step.zero) return;
  for (Request& arrival : step.arrivals) arrival.wait();
  const auto& outputs = step.stripe->outputs;
  const Combination& combination = step.stripe->combination;
  const auto others = std::ranges::count(step.inputs, nullptr);
  if (combination.is_xor() && static_cast<std::size_t>(others) + 1 == step.inputs.size()) {
    const std::byte* only =
        *std::ranges::find_if(step.inputs, [](auto* p) { return p != nullptr; });
    for (const Slot& output : outputs) deliver(step, output, only);
    return;
  }
  std::vector<std::byte*> results;
  for (std::size_t i = 0; i < outputs.size(); ++i) results.push_back(take_buffer(step));
  combination.apply(step.inputs, results, step.wanted);
  for (std::size_t i = 0; i < outputs.size(); ++i) deliver(step, outputs[i], results[i]);
}

void Pass::deliver(Step& step, const Slot& slot, const std::byte* data) {
  const std::size_t real = slot.real(step.offset, step.length);
  if (real == 0) return;
  if (is_here(slot.member)) {
    store(step, slot, data);
  } else {
    const int owner = hosts_[static_cast<std::size_t>(slot.member)];
    step.departures.push_back(comm_.start_send({data, real}, owner, step.tag + 1));
  }
}

void Pass::finish(Step& step) {
  std::size_t result = 0;
  for (const Slot& output : step.stripe->outputs) {
    const std::size_t real = output.real(step.offset, step.length);
    if (!is_here(output.member) || real == 0) continue;
    if (step.zero) {
      file_of(output).write_zeros(output.offset + step.offset, real);
    } else if (!is_head(step)) {
      step.results[result].wait();
      store(step, output, step.outputs[result++]);
    }
  }
  for (Request& departure : step.departures) departure.wait();
  for (std::byte* buffer : step.buffers) pool_.give_back(buffer);
  step.inputs.clear();
  step.outputs.clear();
  step.buffers.clear();
  step.arrivals.clear();
  step.results.clear();
  step.departures.clear();
}

void Pass::store(const Step& step, const Slot& slot, const std::byte* data) {
  Status& status = local(slot.member).status;
  if (!status.ok()) return;
  const std::size_t real = slot.real(step.offset, step.length);
  status = file_of(slot).write(slot.offset + step.offset, {data, real});
  count(real);
}

}  // namespace

void run_pass(Communicator& comm, const std::vector<int>& hosts, const Plan& plan,
              std::span<LocalMember> mine, std::size_t piece_size,
              const std::function<void(std::uint64_t)>& progress) {
  Pass(comm, hosts, plan, mine, piece_size, progress).run();
}

}  // namespace scr::redundancy
