#include "core/runtime/restart_steps.hpp"

#include <fmt/format.h>

#include "core/base/log.hpp"
#include "core/runtime/file_mover.hpp"

namespace scr {

namespace {

// Tells every rank which processes have files of it, and how whole they are.
Result<Hash> announce(Restoration& r) {
  Hash send;
  for (int rank : r.cache.filemap().ranks(r.id)) {
    const FilemapEntry* entry = r.cache.filemap().get(rank, r.id);
    auto descriptor = StoredDescriptor::from_hash(entry->redundancy);
    if (!descriptor.ok()) {
      log::warning("filemap entry of rank {} in dataset {}: {}", rank, r.id,
                   descriptor.status().message());
      continue;
    }
    Filemap single;
    single.at(rank, r.id) = *entry;
    Hash& message = send.at(std::to_string(rank));
    const Status whole = r.cache.check_whole(rank, r.id);
    r.note(whole);
    message.set_value("WHOLE", whole.ok() ? 1 : 0);
    message.set_value("PLACE", place_of(r.context, descriptor->store));
    message.set("MAP", single.to_hash());
  }
  Hash receive;
  SCR_RETURN_IF_ERROR(exchange_hashes(r.context.world(), send, receive));
  return receive;
}

struct Offer {
  int from = 0;
  bool whole = false;
  bool here = false;  // usable without moving
  FilemapEntry entry;
};

// The best offer: whole and here, whole, here, any.
std::optional<Offer> choose(const Restoration& r, const Hash& offers) {
  std::optional<Offer> best;
  auto quality = [](const Offer& o) { return (o.whole ? 2 : 0) + (o.here ? 1 : 0); };
  for (const auto& element : offers.elements()) {
    auto map = element.hash.get("MAP") ? Filemap::from_hash(*element.hash.get("MAP"))
                                       : Result<Filemap>(corrupt("offer without a filemap"));
    if (!map.ok() || map->get(r.context.rank(), r.id) == nullptr) continue;
    Offer offer;
    offer.from = std::stoi(element.key);
    offer.whole = element.hash.value("WHOLE") == "1";
    offer.entry = *map->get(r.context.rank(), r.id);
    auto descriptor = StoredDescriptor::from_hash(offer.entry.redundancy);
    offer.here =
        descriptor.ok() && element.hash.value("PLACE") == place_of(r.context, descriptor->store);
    if (!best || quality(offer) > quality(*best)) best = std::move(offer);
  }
  return best;
}

}  // namespace

std::string place_of(const Context& context, const std::string& store) {
  for (const auto& descriptor : context.config().stores()) {
    if (descriptor.directory != store || descriptor.group == "NODE") continue;
    if (auto value = context.group_value(descriptor.group); value.ok()) {
      return descriptor.group + "=" + *value;
    }
  }
  return context.host();
}

Status distribute(Restoration& r) {
  Communicator& world = r.context.world();
  auto offers = announce(r);
  SCR_RETURN_IF_ERROR(agree(world, offers.status(), "distributing filemaps"));
  std::optional<Offer> offer = choose(r, *offers);
  Status status;
  if (offer) {
    auto descriptor = StoredDescriptor::from_hash(offer->entry.redundancy);
    status = descriptor.status();
    if (status.ok()) status = r.protected_by(std::move(*descriptor));
  }
  SCR_RETURN_IF_ERROR(agree(world, status, "making the dataset directory"));

  const bool take_over = offer && offer->here && offer->from != world.rank();
  const bool move = offer && offer->whole && !offer->here;
  if (take_over) {
    status = r.cache.update(world.rank(), r.id, [&](FilemapEntry& entry) { entry = offer->entry; });
  }
  SCR_RETURN_IF_ERROR(agree(world, status, "taking over filemap entries"));

  // Tell each process that made an offer what becomes of it.
  Hash answers;
  for (const auto& element : offers->elements()) {
    const bool chosen = offer && std::stoi(element.key) == offer->from;
    const char* answer = !chosen ? "NO" : move ? "MOVE" : take_over ? "TAKEN" : "KEEP";
    answers.at(element.key).set_value("ANSWER", answer);
  }
  Hash decisions;
  SCR_RETURN_IF_ERROR(exchange_hashes(world, answers, decisions));
  std::vector<OutgoingFiles> outgoing;
  for (const auto& element : decisions.elements()) {
    const int rank = std::stoi(element.key);
    const auto answer = element.hash.value("ANSWER");
    if (answer == "MOVE") outgoing.push_back({rank});
    if (answer == "TAKEN") status = r.cache.forget(rank, r.id);
  }
  std::optional<IncomingFiles> incoming;
  if (move) {
    incoming = IncomingFiles{offer->from, offer->entry};
    incoming->entry.directory = *r.directory;
  }
  Status moved = move_files(r.context, r.cache, r.id, outgoing, incoming);
  if (!moved.ok()) log::warning("dataset {}: {}", r.id, moved.message());
  r.note(moved);
  return agree(world, status, "distributing files");
}

}  // namespace scr
