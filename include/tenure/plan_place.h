// SPDX-License-Identifier: Apache-2.0
//
// Trial: placing on free GPUs. Included by plan_trial.h; not for direct use.
#ifndef TENURE_PLAN_PLACE_H_
#define TENURE_PLAN_PLACE_H_

#include "tenure/plan_trial.h"

namespace tenure::plan {

// On the tightest node of the groups for which `among` holds.
template <class Team, class Record>
template <class Among>
TENURE_PLAN_FUNCTION bool Trial<Team, Record>::PlaceTight(u32 j, const Among& among) {
  const Job& q = w_.job[j];
  const u64 fewer = (u64{1} << q.gpus) - 1;
  const u64 key = t_.MinBelow(0, w_.groups, [&](u32 g, u64 least) -> u64 {
    const u64 mask = mask_[g] & ~fewer;
    if (mask == 0 || !among(g) || !Fits(q, g)) return kNone;
    const u64 tight = u64{TENURE_PLAN_LOWEST(mask)} << 56;
    return tight > least ? kNone : tight | (u64{Noise(j, g) & 0xffffff} << 32) | g;
  });
  if (key == kNone) return false;
  const u32 g = static_cast<u32>(key), free = static_cast<u32>(key >> 56);
  const u64 node = t_.Min(w_.group_begin[g], w_.group_begin[g + 1], [&](u32 n) -> u64 {
    if (free_[n] != free || (w_.node_flags[n] & kReservedNode)) return kNone;
    const u32 later = late_ && release_[n] < q.protect ? q.protect - release_[n] : 0;
    return (u64{later} << 32) | n;
  });
  TakeNode(q, static_cast<u32>(node), true);
  return true;
}

template <class Team, class Record>
TENURE_PLAN_FUNCTION bool Trial<Team, Record>::PlaceReserved(const Job& q) {
  const u64 key = t_.Min(0, w_.reserved, [&](u32 i) -> u64 {
    const u32 n = w_.reserved_node[i];
    if (free_[n] < q.gpus || q.ends > w_.admit[n] || (w_.node_flags[n] & kLaneNode) ||
        !Fits(q, w_.node_group[n])) {
      return kNone;
    }
    return (u64{free_[n]} << 32) | n;
  });
  if (key == kNone) return false;
  TakeNode(q, static_cast<u32>(key), true);
  return true;
}

template <class Team, class Record>
TENURE_PLAN_FUNCTION bool Trial<Team, Record>::PlaceSession(const Job& q) {
  const u64 key = t_.Min(0, w_.hosts, [&](u32 i) -> u64 {
    const u32 n = w_.host_node[i];
    if (free_[n] < q.gpus || (w_.node_flags[n] & kLaneNode) || q.ends > w_.admit[n] ||
        !Fits(q, w_.node_group[n])) {
      return kNone;
    }
    return (u64{255u - w_.sessions[n]} << 32) | n;
  });
  if (key == kNone) return false;
  TakeNode(q, static_cast<u32>(key), true);
  return true;
}

template <class Team, class Record>
TENURE_PLAN_FUNCTION bool Trial<Team, Record>::PlaceOne(u32 j) {
  const Job& q = w_.job[j];
  const auto lane = [&](u32 g) { return w_.group_lane[g] != 0; };
  const auto general = [&](u32 g) { return w_.group_lane[g] == 0; };
  if ((q.flags & kSession) && PlaceSession(q)) return true;
  if ((q.flags & kLaneFirst) && PlaceTight(j, lane)) return true;
  if (PlaceTight(j, general) || PlaceReserved(q)) return true;
  return (q.flags & kMayUseLane) && !(q.flags & kLaneFirst) && PlaceTight(j, lane);
}

template <class Team, class Record>
TENURE_PLAN_FUNCTION u32 Trial<Team, Record>::Room(const Job& q, const Domain& d) const {
  u32 room = 0;
  for (u32 g = d.first; g < d.last; ++g) room += TENURE_PLAN_POPCOUNT(Members(q, g));
  return room;
}

// The lowest-numbered `need` nodes that hold a member; with noise, groups in any order.
template <class Team, class Record>
TENURE_PLAN_FUNCTION void Trial<Team, Record>::TakeInside(u32 j, const Domain& d, u32 need) {
  const Job& q = w_.job[j];
  while (need > 0) {
    const u64 key = t_.Min(d.first, d.last, [&](u32 g) -> u64 {
      const u32 room = TENURE_PLAN_POPCOUNT(Members(q, g));
      if (room == 0) return kNone;
      const u32 waste = !late_ ? 0u : room >= need ? room - need : 0x80u + kMaxGroup - room;
      return (u64{waste} << 56) | (u64{Noise(j, g) & 0xffffff} << 32) | g;
    });
    const u32 g = static_cast<u32>(key);
    const u64 here = Members(q, g);
    const u32 take = Min32(need, TENURE_PLAN_POPCOUNT(here));
    u64 taken = here;
    while (TENURE_PLAN_POPCOUNT(taken) > take) taken ^= u64{1} << TENURE_PLAN_HIGHEST(taken);
    Take(q, g, taken, true);
    t_.ForEach(0, 1, [&](u32) { held_[g] |= taken; });
    need -= take;
  }
}

template <class Team, class Record>
TENURE_PLAN_FUNCTION bool Trial<Team, Record>::PlaceGang(u32 j) {
  const Job& q = w_.job[j];
  t_.ForEach(0, w_.groups, [&](u32 g) { held_[g] = 0; });
  for (u32 level = q.level + 1; level-- > 0;) {
    const u64 key = t_.Min(w_.level_begin[level], w_.level_begin[level + 1], [&](u32 i) -> u64 {
      const Domain& d = w_.domain[i];
      if (q.pool != kAnyPool && q.pool != d.pool) return kNone;
      const u32 room = Room(q, d);
      if (room < q.nodes) return kNone;
      return (u64{room - q.nodes} << 40) | (u64{Noise(j, i + 0x10000) & 0xffff} << 24) | i;
    });
    if (key == kNone) {
      if (q.flags & kInsideOne) return false;
      continue;
    }
    Spread(j, w_.domain[key & 0xffffff], level);
    return true;
  }
  return false;
}

// Inside `outer`, over as few domains of the wanted level as possible.
template <class Team, class Record>
TENURE_PLAN_FUNCTION void Trial<Team, Record>::Spread(u32 j, const Domain& outer, u32 level) {
  const Job& q = w_.job[j];
  u32 need = q.nodes, used = 0;
  while (level < q.level && need > 0) {
    const u64 key =
        t_.Min(w_.level_begin[q.level], w_.level_begin[q.level + 1u], [&](u32 i) -> u64 {
          const Domain& d = w_.domain[i];
          const u32 room = d.first >= outer.first && d.last <= outer.last ? Room(q, d) : 0;
          if (room == 0) return kNone;
          const u64 order = room >= need ? room - need : 0x1000000u + (0xffffffu - room);
          return (order << 32) | i;
        });
    if (key == kNone) break;  // the rest hangs above the wanted level
    const Domain& d = w_.domain[static_cast<u32>(key)];
    const u32 take = Min32(need, Room(q, d));
    t_.Sync();
    TakeInside(j, d, take);
    need -= take;
    ++used;
  }
  if (need > 0) {
    TakeInside(j, outer, need);
    ++used;
  }
  spans_ += used - 1;
}

}  // namespace tenure::plan

#endif  // TENURE_PLAN_PLACE_H_
