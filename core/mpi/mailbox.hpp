// Mailbox: the messages on their way to one rank of a communicator that lives in one process.
//
// It matches messages with receives by (source, tag), each in the order of arrival. Shared by
// SingleCommunicator and InProcessWorld. Not thread-safe: the caller holds a lock if it needs one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace scr::in_process {

struct Message {
  std::vector<std::byte> data;
  bool taken = false;  // matched with a receive
};

struct PostedReceive {
  std::shared_ptr<const Message> message;  // null until matched
};

class Mailbox {
 public:
  // Returns true if a posted receive was waiting for this message.
  bool deliver(int source, int tag, const std::shared_ptr<Message>& message) {
    auto found = channels_.try_emplace({source, tag}).first;
    Channel& channel = found->second;
    if (channel.receives.empty()) {
      channel.messages.push_back(message);
      return false;
    }
    match(*channel.receives.front(), message);
    channel.receives.pop_front();
    if (channel.receives.empty()) channels_.erase(found);
    return true;
  }

  // `receive` must stay where it is until it is matched or withdrawn. Returns true if it is
  // matched.
  bool post(int source, int tag, PostedReceive& receive) {
    auto found = channels_.try_emplace({source, tag}).first;
    Channel& channel = found->second;
    if (channel.messages.empty()) {
      channel.receives.push_back(&receive);
      return false;
    }
    match(receive, channel.messages.front());
    channel.messages.pop_front();
    if (channel.messages.empty()) channels_.erase(found);
    return true;
  }

  // Forgets a posted receive that has not been matched.
  void withdraw(int source, int tag, PostedReceive& receive) {
    auto found = channels_.find({source, tag});
    if (found == channels_.end()) return;
    std::erase(found->second.receives, &receive);
    if (found->second.receives.empty() && found->second.messages.empty()) channels_.erase(found);
  }

 private:
  // At most one of the two queues has entries.
  struct Channel {
    std::deque<std::shared_ptr<Message>> messages;
    std::deque<PostedReceive*> receives;
  };

  static void match(PostedReceive& receive, const std::shared_ptr<Message>& message) {
    message->taken = true;
    receive.message = message;
  }

  std::map<std::pair<int, int>, Channel> channels_;
};

}  // namespace scr::in_process
