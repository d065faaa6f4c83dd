// SPDX-License-Identifier: Apache-2.0
//
// Trial: making room by stopping runs. Included by plan_trial.h; not for direct use.
//
// Costs are first bounded from below, once for each row of rights and kept up to date node by node:
// nobody's floor counted and every gang large enough to pay each run once. What is picked by its
// bound is evaluated exactly before anything is stopped; if it turns out dearer it is put back.
#ifndef TENURE_PLAN_CLEAR_H_
#define TENURE_PLAN_CLEAR_H_

#include "tenure/plan_trial.h"

namespace tenure::plan {

// The GPUs of `x` count as free soon (1), or no longer (-1).
template <class Team, class Record>
TENURE_PLAN_FUNCTION void Trial<Team, Record>::Release(const Victim& x, int sign) {
  t_.ForEach(x.first, x.first + x.count, [&](u32 i) {
    const u32 n = w_.victim_node[i].id;
    soon_[n] = static_cast<u8>(soon_[n] + sign * static_cast<int>(w_.victim_node[i].gpus));
  });
}

template <class Team, class Record>
TENURE_PLAN_FUNCTION void Trial<Team, Record>::Kill(u32 v) {
  const Victim& x = w_.victim[v];
  const bool chosen = killed_[v] != kAlive;  // then its GPUs are in soon_
  t_.Sync();
  t_.ForEach(0, 1, [&](u32) {
    record_.Kill(v);
    killed_[v] = kGone;
    if (x.account != kNoAccount) spare_[x.account] -= static_cast<int>(x.charge);
    loss_[x.loss_class] = Add32(loss_[x.loss_class], x.lost);
  });
  if (!chosen) Release(x, 1);
  t_.ForEach(0, 1, [&](u32) {
    for (u32 i = x.first; i < x.first + x.count; ++i) {
      const u32 n = w_.victim_node[i].id;
      Recount(w_.node_group[n], n, 0);
    }
  });
  lost_ = Add32(lost_, x.lost);
  shifted_ = true;
  stops_ -= x.funded;
}

template <class Team, class Record>
TENURE_PLAN_FUNCTION bool Trial<Team, Record>::Usable(const Job& q, u32 n) const {
  if ((w_.node_flags[n] & kLaneNode) && !(q.flags & kMayUseLane)) return false;
  return u32(q.ends) + w_.protect_wait <= w_.admit[n] && w_.gpus[n] >= q.gpus &&
         Fits(q, w_.node_group[n]);
}

template <class Team, class Record>
TENURE_PLAN_FUNCTION u64 Trial<Team, Record>::Share(u32 v, u32 remaining) const {
  const u32 parts = Min32(w_.victim[v].count, remaining);
  return w_.victim[v].choice / (parts > 0 ? parts : 1);
}

// The cheapest runs on `n` that make room for a member of `gpus`, as bits of its occupants, and
// what they cost; kNone if none do. Not exact: floors and the number of stops allowed do not count.
template <class Team, class Record>
template <bool kExact>
TENURE_PLAN_FUNCTION u64 Trial<Team, Record>::Evaluate(u32 row, u32 gpus, u32 n, u32 remaining,
                                                       u64* picked) const {
  const u32 b = w_.occupant_begin[n], e = w_.occupant_begin[n + 1];
  u32 available = soon_[n];
  *picked = 0;
  if (available >= gpus) return 0;
  u64 cost = 0;
  u32 stops = stops_;
  for (u32 i = b; i < e && available < gpus; ++i) {
    const u32 v = w_.occupant[i].id;
    const Victim& x = w_.victim[v];
    if (killed_[v] != kAlive || (kExact && x.funded && stops == 0)) continue;
    const u8 right = w_.rights[row * w_.victims + v];
    if (right == kNever) continue;
    if (kExact && right == kWithinSpare) {
      int spare = spare_[x.account] - static_cast<int>(x.charge);
      for (u64 bits = *picked; bits != 0; bits &= bits - 1) {
        const Victim& y = w_.victim[w_.occupant[b + TENURE_PLAN_LOWEST(bits)].id];
        if (y.account == x.account) spare -= static_cast<int>(y.charge);
      }
      if (spare < 0) continue;
    }
    *picked |= u64{1} << (i - b);
    stops -= x.funded;
    available += w_.occupant[i].gpus;
    cost += Share(v, remaining);
  }
  if (available < gpus) return kNone;
  for (u32 i = e; i-- > b;) {  // what the others make unnecessary stays
    const u64 bit = u64{1} << (i - b);
    if (!(*picked & bit) || available - w_.occupant[i].gpus < gpus) continue;
    *picked &= ~bit;
    available -= w_.occupant[i].gpus;
    cost -= Share(w_.occupant[i].id, remaining);
  }
  return cost;
}

// What clearing `n` for a member costs, as 32 bits.
template <class Team, class Record>
TENURE_PLAN_FUNCTION u32 Trial<Team, Record>::CostOf(const Job& q, u32 n, u32 remaining,
                                                     u64* picked) const {
  if (most_[n] < q.gpus || !Usable(q, n)) return kNoCost;
  return Short(Evaluate<true>(q.row, q.gpus, n, remaining, picked), n);
}

// Brings base_ and what is known of it by group up to date for the row and size of `q`.
template <class Team, class Record>
TENURE_PLAN_FUNCTION void Trial<Team, Record>::BoundFor(const Job& q) {
  if (row_ != q.row || gpus_ != q.gpus) {
    t_.ForEach(0, w_.groups, [&](u32 g) { stale_[g] = ~u64{0}; });
    row_ = q.row;
    gpus_ = q.gpus;
  }
  t_.ForEach(0, w_.groups, [&](u32 g) {
    if (stale_[g] == 0) return;
    u32 least = kNoCost, able = 0;
    u64 sum = 0;
    u64 stale = stale_[g];
    for (u32 n = w_.group_begin[g]; n < w_.group_begin[g + 1]; ++n, stale >>= 1) {
      u64 picked = 0;
      if (stale & 1) {
        base_[n] = most_[n] < gpus_ ? kNoCost
                                    : Short(Evaluate<false>(row_, gpus_, n, kNone32, &picked), n);
      }
      if (base_[n] == kNoCost) continue;
      least = Min32(least, base_[n]);
      sum += base_[n];
      ++able;
    }
    base_least_[g] = least;
    sum_[g] = sum;
    clearable_[g] = static_cast<u8>(able);
    stale_[g] = 0;
  });
}

// As a key: clearing `n` costs no less than the cheapest run on it did at first.
template <class Team, class Record>
TENURE_PLAN_FUNCTION u64 Trial<Team, Record>::AtLeast(u32 n) const {
  const u64 choice = w_.victim[w_.occupant[w_.occupant_begin[n]].id].choice;
  return (u64{Compress(choice)} << 32) | n;
}

template <class Team, class Record>
TENURE_PLAN_FUNCTION bool Trial<Team, Record>::ClearOne(u32 j) {
  const Job& q = w_.job[j];
  const u64 fewer = (u64{1} << q.gpus) - 1;
  const u64 key = t_.MinBelow(0, w_.groups, [&](u32 g, u64 least) -> u64 {
    if ((reach_[g] & ~fewer) == 0 || !Fits(q, g)) return kNone;
    for (u32 n = w_.group_begin[g]; n < w_.group_begin[g + 1]; ++n) {
      if (most_[n] < q.gpus) continue;
      if (soon_[n] < q.gpus && AtLeast(n) >= least) continue;
      if (!Usable(q, n)) continue;
      u64 picked = 0, cost = Evaluate<true>(q.row, q.gpus, n, 1, &picked);
      if (cost == kNone) continue;
      if (q.flags & kSession) cost += kSessionAway * (8 - Min32(8, w_.sessions[n]));
      const u64 k = (u64{Compress(Perturb(cost, n))} << 32) | n;
      least = k < least ? k : least;
    }
    return least;
  });
  if (key == kNone) return false;
  const u32 n = static_cast<u32>(key);
  u64 picked = 0;
  Evaluate<true>(q.row, q.gpus, n, 1, &picked);
  started_ = picked == 0 && free_[n] >= q.gpus;
  t_.Sync();
  for (u64 bits = picked; bits != 0; bits &= bits - 1) {
    Kill(w_.occupant[w_.occupant_begin[n] + TENURE_PLAN_LOWEST(bits)].id);
  }
  TakeNode(q, n, started_);
  return true;
}

template <class Team, class Record>
TENURE_PLAN_FUNCTION u32 Trial<Team, Record>::Able(const Job& q, const Domain& d) const {
  u32 able = 0;
  for (u32 g = d.first; g < d.last; ++g) {
    able += TENURE_PLAN_POPCOUNT(able_[q.width * w_.groups + g]);
  }
  return able;
}

template <class Team, class Record>
TENURE_PLAN_FUNCTION bool Trial<Team, Record>::ClearGang(u32 j) {
  const Job& q = w_.job[j];
  const bool inside = (q.flags & kInsideOne) || (compact_ && q.level > 0);
  if (inside && ClearInside(j, q.level)) return true;
  return !(q.flags & kInsideOne) && ClearInside(j, 0);
}

// In a domain of `level`: in the three that seem cheapest, one after the other.
template <class Team, class Record>
TENURE_PLAN_FUNCTION bool Trial<Team, Record>::ClearInside(u32 j, u32 level) {
  const Job& q = w_.job[j];
  const u32 first = w_.level_begin[level], last = w_.level_begin[level + 1];
  const u64 any = t_.Min(first, last, [&](u32 i) {  // most requests that fail do so here
    const Domain& d = w_.domain[i];
    return Fits(q, d) && Able(q, d) >= q.nodes ? u64{i} : kNone;
  });
  if (any == kNone) return false;
  BoundFor(q);
  u64 before = 0;
  for (u32 tries = 0; tries < 3; ++tries) {
    const u64 key = t_.Min(first, last, [&](u32 i) -> u64 {
      const Domain& d = w_.domain[i];
      u64 sum = 0;
      u32 able = 0;
      for (u32 g = d.first; g < d.last; ++g) {
        sum += sum_[g];
        able += clearable_[g];
      }
      if (!Fits(q, d) || able < q.nodes) return kNone;
      const u64 k = (u64{Compress(sum / able)} << 32) | (i + 1);
      return k > before ? k : kNone;
    });
    if (key == kNone) return false;
    if (Assemble(j, w_.domain[static_cast<u32>(key) - 1])) return true;
    before = key;
  }
  return false;
}

template <class Team, class Record>
TENURE_PLAN_FUNCTION u32 Trial<Team, Record>::LeastOf(u32 g) const {
  u32 least = kNoCost;
  for (u32 n = w_.group_begin[g]; n < w_.group_begin[g + 1]; ++n) least = Min32(least, cost_[n]);
  return least;
}

template <class Team, class Record>
TENURE_PLAN_FUNCTION void Trial<Team, Record>::SetCost(u32 n, u32 cost) {
  const u32 g = w_.node_group[n];
  t_.Sync();
  t_.ForEach(0, 1, [&](u32) {
    cost_[n] = cost;
    least_[g] = LeastOf(g);
    if (cost == kPicked) held_[g] |= u64{1} << (n - w_.group_begin[g]);
  });
}

// The first nodes of group `g` that cost nothing become members, up to one that has to be looked at
// more closely; how many.
template <class Team, class Record>
TENURE_PLAN_FUNCTION u32 Trial<Team, Record>::TakeIdle(const Job& q, u32 g, u32 need) {
  const u32 b = w_.group_begin[g], e = w_.group_begin[g + 1];
  const u64 look = t_.Or(b, e, [&](u32 n) {
    return u64{cost_[n] == 0 && !(soon_[n] >= q.gpus && Usable(q, n))} << (n - b);
  });
  const u64 before = look == 0 ? ~u64{0} : (look & (~look + 1)) - 1;
  u64 members = t_.Or(b, e, [&](u32 n) { return u64{cost_[n] == 0} << (n - b); }) & before;
  while (TENURE_PLAN_POPCOUNT(members) > need) members ^= u64{1} << TENURE_PLAN_HIGHEST(members);
  t_.ForEach(b, e, [&](u32 n) { cost_[n] = (members >> (n - b)) & 1 ? kPicked : cost_[n]; });
  t_.ForEach(0, 1, [&](u32) {
    least_[g] = LeastOf(g);
    held_[g] |= members;
  });
  return TENURE_PLAN_POPCOUNT(members);
}

template <class Team, class Record>
TENURE_PLAN_FUNCTION void Trial<Team, Record>::Choose(u32 v, Fate fate) {
  const Victim& x = w_.victim[v];
  t_.Sync();
  t_.ForEach(0, 1, [&](u32) {
    killed_[v] = fate;
    const int charge = static_cast<int>(x.charge);
    if (x.account != kNoAccount) spare_[x.account] += fate == kAlive ? charge : -charge;
  });
  Release(x, fate == kAlive ? -1 : 1);
  if (fate == kAlive) {
    stops_ += x.funded;
  } else {
    stops_ -= x.funded;
  }
}

template <class Team, class Record>
TENURE_PLAN_FUNCTION u64 Trial<Team, Record>::NextFated(Fate fate) {
  return t_.Min(0, w_.victims, [&](u32 v) { return killed_[v] == fate ? u64{v} : kNone; });
}

// Runs that later choices made unnecessary stay, the dearest first.
template <class Team, class Record>
TENURE_PLAN_FUNCTION void Trial<Team, Record>::Trim(const Job& q, const Domain& d) {
  const u32 b = w_.group_begin[d.first], e = w_.group_begin[d.last];
  const auto member = [&](u32 n) { return n >= b && n < e && cost_[n] == kPicked; };
  for (;;) {
    const u64 key = t_.Min(0, w_.victims, [&](u32 v) {
      return killed_[v] == kChosen ? (u64{~Compress(w_.victim[v].choice)} << 32) | v : kNone;
    });
    if (key == kNone) return;
    const u32 v = static_cast<u32>(key);
    const Victim& x = w_.victim[v];
    const u32 needed = t_.Sum(x.first, x.first + x.count, [&](u32 i) {
      const u32 n = w_.victim_node[i].id;
      if (!member(n)) return 0u;
      return u32{soon_[n] - w_.victim_node[i].gpus < q.gpus};
    });
    if (needed == 0) {
      Choose(v, kAlive);
    } else {
      t_.ForEach(0, 1, [&](u32) { killed_[v] = kNeeded; });
    }
  }
}

// The nodes of run `v` in the domain cost what they cost now.
template <class Team, class Record>
TENURE_PLAN_FUNCTION void Trial<Team, Record>::Reprice(const Job& q, const Domain& d, u32 v,
                                                       u32 remaining) {
  const Victim& x = w_.victim[v];
  const u32 b = w_.group_begin[d.first], e = w_.group_begin[d.last];
  t_.ForEach(x.first, x.first + x.count, [&](u32 i) {
    const u32 n = w_.victim_node[i].id;
    u64 picked = 0;
    if (n >= b && n < e && cost_[n] != kPicked) cost_[n] = CostOf(q, n, remaining, &picked);
  });
  u32 last = kNoCost;
  for (u32 i = x.first; i < x.first + x.count; ++i) {
    const u32 g = w_.node_group[w_.victim_node[i].id];
    if (g == last || g < d.first || g >= d.last) continue;
    t_.ForEach(g, g + 1, [&](u32 y) { least_[y] = LeastOf(y); });
    last = g;
  }
}

// Greedy: the node with the least marginal cost, until the gang has its members. Nothing is stopped
// unless all of it fits.
template <class Team, class Record>
TENURE_PLAN_FUNCTION bool Trial<Team, Record>::Assemble(u32 j, const Domain& d) {
  const Job& q = w_.job[j];
  t_.ForEach(0, w_.accounts, [&](u32 a) { spare_before_[a] = spare_[a]; });
  const u32 b = w_.group_begin[d.first], e = w_.group_begin[d.last];
  t_.ForEach(b, e, [&](u32 n) { cost_[n] = base_[n]; });
  t_.ForEach(d.first, d.last, [&](u32 g) {
    least_[g] = base_least_[g];
    held_[g] = 0;
  });
  const u32 stops_before = stops_;
  u32 members = 0;
  while (members < q.nodes) {
    const u64 group = t_.Min(d.first, d.last, [&](u32 g) {
      return least_[g] >= kPicked ? kNone : (u64{least_[g]} << 32) | g;
    });
    if (group == kNone) break;
    const u32 g = static_cast<u32>(group), cheapest = static_cast<u32>(group >> 32);
    if (const u32 all = cheapest == 0 ? TakeIdle(q, g, q.nodes - members) : 0) {
      members += all;
      continue;
    }
    const u32 n = static_cast<u32>(t_.Min(w_.group_begin[g], w_.group_begin[g + 1], [&](u32 x) {
      return cost_[x] == cheapest ? u64{x} : kNone;
    }));
    u64 picked = 0;
    const u32 now = CostOf(q, n, q.nodes - members, &picked);
    if (now >
        cheapest) {  // its turn comes again, and that of all nodes of a run that spans several
      SetCost(n, now);
      for (u32 i = w_.occupant_begin[n]; i < w_.occupant_begin[n + 1]; ++i) {
        const u32 v = w_.occupant[i].id;
        if (w_.victim[v].count > 1 && killed_[v] == kAlive) Reprice(q, d, v, q.nodes - members);
      }
      continue;
    }
    SetCost(n, kPicked);
    ++members;
    for (u64 bits = picked; bits != 0; bits &= bits - 1) {
      const u32 v = w_.occupant[w_.occupant_begin[n] + TENURE_PLAN_LOWEST(bits)].id;
      Choose(v, kChosen);
      Reprice(q, d, v, q.nodes - members);  // the rest of it costs nothing now
    }
  }
  if (members == q.nodes) Trim(q, d);
  t_.ForEach(0, w_.accounts, [&](u32 a) { spare_[a] = spare_before_[a]; });
  stops_ = stops_before;
  if (members < q.nodes) {
    t_.ForEach(0, w_.nodes, [&](u32 n) {
      for (u32 o = w_.occupant_begin[n]; o < w_.occupant_begin[n + 1]; ++o) {
        if (killed_[w_.occupant[o].id] != kChosen) continue;
        soon_[n] = static_cast<u8>(soon_[n] - w_.occupant[o].gpus);
      }
    });
    t_.ForEach(0, w_.victims, [&](u32 v) { killed_[v] = killed_[v] == kGone ? kGone : kAlive; });
    return false;
  }
  bool any = false;
  for (u64 v; (v = NextFated(kNeeded)) != kNone; any = true) Kill(static_cast<u32>(v));
  const auto member = [&](u32 n) { return cost_[n] == kPicked; };
  started_ = !any && kNone == t_.Min(b, e, [&](u32 n) {
    return member(n) && free_[n] < q.gpus ? u64{n} : kNone;
  });
  for (u32 g = d.first; g < d.last; ++g) {
    if (held_[g] != 0) Take(q, g, held_[g], started_);
  }
  return true;
}

}  // namespace tenure::plan

#endif  // TENURE_PLAN_CLEAR_H_
