// SPDX-License-Identifier: Apache-2.0
//
// Maintenance that is announced ahead: which nodes will be out of service, and when.
//
//   MaintenanceCalendar calendar;
//   MaintenanceId id = calendar.Add({n1, n2}, from, until, "ann", "firmware");
//   for (const auto& [node, at] : calendar.Beginnings()) ...  // the next window of each node
//
// Windows may overlap: a node is out of service in the union of its windows. Value type,
// thread-compatible. O(nodes in windows) a question; memory the same.
#ifndef TENURE_MAINTENANCE_H_
#define TENURE_MAINTENANCE_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tenure/types.h"

namespace tenure {

using MaintenanceId = Id<struct MaintenanceIdTag, std::uint64_t>;

// `nodes` are out of service in [from, until).
struct MaintenanceWindow {
  MaintenanceId id;
  std::vector<NodeId> nodes;  // ascending, each once
  TimePoint from{}, until{};
  std::string author, reason;

  template <class Archive>
  void Serialize(Archive& ar) {
    ar(id, nodes, from, until, author, reason);
  }
};

class MaintenanceCalendar {
 public:
  // What has been announced and is not over, in order of announcement.
  const std::vector<MaintenanceWindow>& windows() const { return windows_; }
  bool empty() const { return windows_.empty(); }

  MaintenanceId Add(std::vector<NodeId> nodes, TimePoint from, TimePoint until, std::string author,
                    std::string reason) {
    std::sort(nodes.begin(), nodes.end());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    const MaintenanceId id(++last_id_);
    windows_.push_back({id, std::move(nodes), from, until, std::move(author), std::move(reason)});
    return id;
  }

  // NotFound: no such window, or it is over.
  absl::Status Cancel(MaintenanceId id) {
    const auto it = std::find_if(windows_.begin(), windows_.end(),
                                 [&](const MaintenanceWindow& w) { return w.id == id; });
    if (it == windows_.end()) {
      return absl::NotFoundError(absl::StrCat("maintenance ", id.value(), " is unknown"));
    }
    windows_.erase(it);
    return absl::OkStatus();
  }

  // Forgets the windows that are over at `now`.
  void Expire(TimePoint now) {
    std::erase_if(windows_, [&](const MaintenanceWindow& w) { return w.until <= now; });
  }

  // Of every node with a window, when its first one begins or began; ascending by node.
  std::vector<std::pair<NodeId, TimePoint>> Beginnings() const {
    std::vector<std::pair<NodeId, TimePoint>> out;
    for (const MaintenanceWindow& w : windows_) {
      for (NodeId node : w.nodes) out.emplace_back(node, w.from);
    }
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end(),
                          [](const auto& a, const auto& b) { return a.first == b.first; }),
              out.end());
    return out;
  }

  // The first instant after `now` at which a window ends or is `ahead` from its beginning.
  TimePoint NextChange(TimePoint now, Duration ahead) const {
    TimePoint next = kNever;
    for (const MaintenanceWindow& w : windows_) {
      if (w.from - ahead > now) next = std::min(next, w.from - ahead);
      if (w.until > now) next = std::min(next, w.until);
    }
    return next;
  }

  template <class Archive>
  void Serialize(Archive& ar) {
    ar(windows_, last_id_);
  }

 private:
  std::vector<MaintenanceWindow> windows_;
  std::uint64_t last_id_ = 0;
};

}  // namespace tenure

#endif  // TENURE_MAINTENANCE_H_
