// SPDX-License-Identifier: Apache-2.0
//
// One trial: a complete plan for a World, made the same way by one core, by many lanes or by a GPU.
//
//   SerialTeam team;
//   Trial<SerialTeam> trial(world, params, team, 0, scratch);  // LayoutOf(world).bytes, 8-aligned
//   std::uint64_t price = trial.Run();  // kNone: the guard refused it, or it is not below `beat`
//
// A trial walks the jobs in order, places each on free GPUs (tightest fit; smallest domain), else
// clears nodes of runs that it may stop, and prices what came out. It is a pure function of (World,
// Params, number): integers only, every reduction is a minimum with a unique key, a sum or an or,
// so the number of lanes and their order do not matter. Trial 0 follows the order of the queue and
// breaks ties by position, like the engine. The others vary the order inside a band (as given,
// largest first, by hash), the choice of nodes (by position or where protections end late anyway),
// whether gangs are cleared inside one domain, and, from trial 13 on, break ties by a hash of
// (seed + number, job, place).
//
// A price is (GPU-minutes << kTrialBits | number): a total order, the lowest number wins a tie.
// Complexity: O(J (D + 64)) on free GPUs, D groups; O(N R) more for each change of the row of
// rights among the attempts to stop runs, of which each kind fails once.
//
// Team concept: ForEach(b, e, f) and Sync end with a barrier; Min(b, e, f), Sum and Or return the
// same value to every lane and end with a barrier; lanes never part around a call. MinBelow is Min
// with f(i, least): what a lane has found so far, at or above which f may answer anything that is
// not below the truth. What all lanes read must not be written by one before the next barrier.
#ifndef TENURE_PLAN_TRIAL_H_
#define TENURE_PLAN_TRIAL_H_

#include "tenure/plan_world.h"

namespace tenure::plan {

// What a plan decided, for whoever wants to carry it out; trials of a search record nothing.
struct NoRecord {
  TENURE_PLAN_FUNCTION void Begin(u32) {}
  TENURE_PLAN_FUNCTION void Take(u32) {}
  TENURE_PLAN_FUNCTION void Kill(u32) {}
  TENURE_PLAN_FUNCTION void End(bool, bool) {}
  TENURE_PLAN_FUNCTION void Waits(u32, u32) {}
};

template <class Team, class Record = NoRecord>
class Trial {
 public:
  // `scratch`: LayoutOf(world).bytes, aligned to 8, shared by the lanes.
  TENURE_PLAN_FUNCTION Trial(const World& world, const Params& params, Team& team, u32 number,
                             u8* scratch, Record record = Record());

  // Ends as soon as it is certain that the answer is kNone: the counts below are then of a part.
  TENURE_PLAN_FUNCTION u64 Run();
  // For every job, whether it could find a place if it were alone: possible[j] = 1. No false
  // negatives. Nothing is placed.
  TENURE_PLAN_FUNCTION void Probe(u8* possible);

  u32 unplaced() const { return unplaced_; }
  u32 lost() const { return lost_; }
  u32 placed() const { return placed_; }
  const u32* loss() const { return loss_; }

 private:
  enum Fate : u8 { kAlive = 0, kGone = 1, kChosen = 2, kNeeded = 3 };
  static constexpr u32 kPicked = kNoCost - 1;                      // a cost: member of the gang
  static constexpr u64 kSessionAway = 20'000'000 >> kChoiceShift;  // as in preemption.h

  TENURE_PLAN_FUNCTION static u32 Min32(u32 a, u32 b) { return a < b ? a : b; }
  TENURE_PLAN_FUNCTION static u32 Add32(u32 a, u32 b) { return a > ~u32{0} - b ? ~u32{0} : a + b; }
  TENURE_PLAN_FUNCTION u32 Noise(u32 a, u32 b) const {
    return noisy_ ? Mix(p_.seed + number_, a, b) : 0u;
  }
  TENURE_PLAN_FUNCTION u64 Perturb(u64 cost, u32 place) const {
    return noisy_ ? cost + ((cost * (Noise(0x20000, place) & 0xff)) >> 7) : cost;
  }
  TENURE_PLAN_FUNCTION bool Fits(const Job& q, u32 group) const {
    return q.pool == kAnyPool || q.pool == w_.group_pool[group];
  }
  TENURE_PLAN_FUNCTION bool Fits(const Job& q, const Domain& d) const {
    return q.pool == kAnyPool || q.pool == d.pool;
  }
  TENURE_PLAN_FUNCTION static void SetBit(u64& bits, u32 i, bool value) {
    bits = (bits & ~(u64{1} << i)) | (u64{value} << i);
  }

  // The walk.
  TENURE_PLAN_FUNCTION void Init();
  TENURE_PLAN_FUNCTION u32 Next(u32 step, u32 begin, u32 end);
  TENURE_PLAN_FUNCTION bool Serve(u32 j);
  TENURE_PLAN_FUNCTION bool Hopeless(const Job& q) const {
    return (failed_[q.kind / 64] >> (q.kind % 64)) & 1;
  }
  TENURE_PLAN_FUNCTION void Fail(const Job& q) {
    for (u32 i = 0; i < kKindWords; ++i) failed_[i] |= w_.implies[q.kind * kKindWords + i];
  }
  TENURE_PLAN_FUNCTION bool Possible(const Job& q);
  TENURE_PLAN_FUNCTION void CountFree(u32 g, u32 n);
  TENURE_PLAN_FUNCTION void CountMost(u32 g, u32 n);
  TENURE_PLAN_FUNCTION void Recount(u32 g, u32 n, u32 taken);
  TENURE_PLAN_FUNCTION void Take(const Job& q, u32 g, u64 nodes, bool start);
  TENURE_PLAN_FUNCTION void TakeNode(const Job& q, u32 n, bool start) {
    const u32 g = w_.node_group[n];
    Take(q, g, u64{1} << (n - w_.group_begin[g]), start);
  }
  TENURE_PLAN_FUNCTION bool ShiftsLosses();
  TENURE_PLAN_FUNCTION u64 PriceAt(u32 fragments) const;
  TENURE_PLAN_FUNCTION u64 Price();

  // On free GPUs (plan_place.h).
  template <class Among>
  TENURE_PLAN_FUNCTION bool PlaceTight(u32 j, const Among& among);
  TENURE_PLAN_FUNCTION bool PlaceReserved(const Job& q);
  TENURE_PLAN_FUNCTION bool PlaceSession(const Job& q);
  TENURE_PLAN_FUNCTION bool PlaceOne(u32 j);
  TENURE_PLAN_FUNCTION u64 Members(const Job& q, u32 g) const {
    return fit_[q.width * w_.groups + g] & ~held_[g];
  }
  TENURE_PLAN_FUNCTION u32 Room(const Job& q, const Domain& d) const;
  TENURE_PLAN_FUNCTION void TakeInside(u32 j, const Domain& d, u32 need);
  TENURE_PLAN_FUNCTION void Spread(u32 j, const Domain& outer, u32 level);
  TENURE_PLAN_FUNCTION bool PlaceGang(u32 j);

  // By stopping runs (plan_clear.h).
  TENURE_PLAN_FUNCTION void Release(const Victim& x, int sign);
  TENURE_PLAN_FUNCTION void Kill(u32 v);
  TENURE_PLAN_FUNCTION bool Usable(const Job& q, u32 n) const;
  TENURE_PLAN_FUNCTION u64 Share(u32 v, u32 remaining) const;
  template <bool kExact>
  TENURE_PLAN_FUNCTION u64 Evaluate(u32 row, u32 gpus, u32 n, u32 remaining, u64* picked) const;
  TENURE_PLAN_FUNCTION u32 Short(u64 cost, u32 n) const {
    return cost == kNone ? kNoCost : Min32(Compress(Perturb(cost, n)), kPicked - 1);
  }
  TENURE_PLAN_FUNCTION u32 CostOf(const Job& q, u32 n, u32 remaining, u64* picked) const;
  TENURE_PLAN_FUNCTION void BoundFor(const Job& q);
  TENURE_PLAN_FUNCTION u64 AtLeast(u32 n) const;
  TENURE_PLAN_FUNCTION bool ClearOne(u32 j);
  TENURE_PLAN_FUNCTION u32 Able(const Job& q, const Domain& d) const;
  TENURE_PLAN_FUNCTION bool ClearGang(u32 j);
  TENURE_PLAN_FUNCTION bool ClearInside(u32 j, u32 level);
  TENURE_PLAN_FUNCTION u32 LeastOf(u32 g) const;
  TENURE_PLAN_FUNCTION void SetCost(u32 n, u32 cost);
  TENURE_PLAN_FUNCTION void Reprice(const Job& q, const Domain& d, u32 v, u32 remaining);
  TENURE_PLAN_FUNCTION u32 TakeIdle(const Job& q, u32 g, u32 need);
  TENURE_PLAN_FUNCTION void Choose(u32 v, Fate fate);
  TENURE_PLAN_FUNCTION u64 NextFated(Fate fate);
  TENURE_PLAN_FUNCTION void Trim(const Job& q, const Domain& d);
  TENURE_PLAN_FUNCTION bool Assemble(u32 j, const Domain& d);

  const World& w_;
  const Params& p_;
  Team& t_;
  Record record_;
  const u32 number_;

  // Shared by the lanes. By group and width: nodes with that much free, and with that much if all
  // runs that anybody may stop were gone.
  u64 *fit_, *able_;
  u64 *mask_, *reach_;        // by group: which numbers of GPUs some node has free, or could have
  u64* held_;                 // by group: nodes of the gang being placed
  u64* stale_;                // by group: nodes whose base_ is not known
  u64* failed_;               // kinds
  u64* sum_;                  // by group: of base_
  u32* base_;                 // by node: at least what clearing it costs the row at hand
  u32* cost_;                 // by node: the same for the gang at hand
  u32 *base_least_, *least_;  // by group
  int *spare_, *spare_before_;
  u32* loss_;
  u16* release_;
  u8 *idle_, *soon_, *most_;      // `soon`: of runs chosen for a stop, too
  u8* free_;                      // by node: idle and not claimed
  u8 *free_count_, *most_count_;  // by group and number: nodes with so many GPUs free, or at most
  u8* clearable_;                 // by group: nodes with a base_
  u8 *killed_, *done_;

  // The same in every lane.
  u32 order_ = 1;  // 0: largest first, 1: as given, 2: by hash
  bool late_ = false, compact_ = false, noisy_ = false;
  bool shifted_ = false;          // runs were stopped since losses were compared
  bool started_ = false;          // the last job that needed no stop found its GPUs free
  u32 row_ = kNone32, gpus_ = 0;  // what base_ is for
  u32 stops_ = 0, unplaced_ = 0, lost_ = 0, delay_ = 0, spans_ = 0, placed_ = 0;
};

template <class Team, class Record>
TENURE_PLAN_FUNCTION Trial<Team, Record>::Trial(const World& world, const Params& params,
                                                Team& team, u32 number, u8* scratch, Record record)
    : w_(world), p_(params), t_(team), record_(record), number_(number) {
  const Layout l = LayoutOf(world);
  const auto longs = [&](u32 at) { return reinterpret_cast<u64*>(scratch + at); };
  const auto words = [&](u32 at) { return reinterpret_cast<u32*>(scratch + at); };
  fit_ = longs(l.fit), able_ = longs(l.able), mask_ = longs(l.mask), reach_ = longs(l.reach);
  held_ = longs(l.held), stale_ = longs(l.stale), failed_ = longs(l.failed), sum_ = longs(l.sum);
  base_ = words(l.base), cost_ = words(l.cost), loss_ = words(l.loss);
  base_least_ = words(l.base_least), least_ = words(l.least);
  spare_ = reinterpret_cast<int*>(scratch + l.spare);
  spare_before_ = reinterpret_cast<int*>(scratch + l.spare_before);
  release_ = reinterpret_cast<u16*>(scratch + l.release);
  idle_ = scratch + l.idle, soon_ = scratch + l.soon, most_ = scratch + l.most;
  free_ = scratch + l.free, free_count_ = scratch + l.free_count;
  most_count_ = scratch + l.most_count, clearable_ = scratch + l.clearable;
  killed_ = scratch + l.killed, done_ = scratch + l.done;
  if (number > 0) {
    const u32 h = number - 1;
    order_ = h % 3;
    late_ = h / 3 % 2 == 0;
    compact_ = h / 6 % 2 == 1;
    noisy_ = number > 12;
  }
}

template <class Team, class Record>
TENURE_PLAN_FUNCTION u64 Trial<Team, Record>::Run() {
  Init();
  u32 in_band = 0, begin = 0, end = 0;
  for (u32 step = 0; step < w_.jobs; ++step) {
    if (step == end) {
      begin = end;
      in_band = 0;
      while (end < w_.jobs && w_.job[end].band == w_.job[begin].band) ++end;
    }
    const u32 j = Next(step, begin, end);
    if (!Serve(j)) {
      unplaced_ += w_.job[j].weight;
      in_band += w_.job[j].weight;
      record_.Waits(w_.job[j].band, w_.job[j].weight);
      if (p_.guard.unplaced != nullptr && in_band > p_.guard.unplaced[w_.job[j].band]) return kNone;
    }
    // Losses and price only grow, so what is lost by now stays lost.
    if (shifted_ && p_.guard.lost != nullptr && ShiftsLosses()) return kNone;
    if (PriceAt(0) >= p_.beat) return kNone;
  }
  const u64 price = Price();
  return price < p_.beat ? price : kNone;
}

template <class Team, class Record>
TENURE_PLAN_FUNCTION void Trial<Team, Record>::Probe(u8* possible) {
  Init();
  for (u32 j = 0; j < w_.jobs; ++j) {
    const bool yes = !Hopeless(w_.job[j]) && Possible(w_.job[j]);
    t_.Sync();
    t_.ForEach(0, 1, [&](u32) {
      possible[j] = yes;
      if (!yes) Fail(w_.job[j]);
    });
  }
}

// The next job of the band: as given, or the largest, or by hash.
template <class Team, class Record>
TENURE_PLAN_FUNCTION u32 Trial<Team, Record>::Next(u32 step, u32 begin, u32 end) {
  if (order_ == 1 || number_ == 0 || end - begin == 1) return step;
  const u64 key = t_.Min(begin, end, [&](u32 x) -> u64 {
    if (done_[x]) return kNone;
    const u32 first = order_ == 0 ? ~w_.job[x].weight : Mix(p_.seed + number_, x, 0x80000);
    return (u64{first} << 32) | x;
  });
  return static_cast<u32>(key);
}

template <class Team, class Record>
TENURE_PLAN_FUNCTION bool Trial<Team, Record>::Serve(u32 j) {
  const Job& q = w_.job[j];
  const bool hopeless = Hopeless(q);
  started_ = false;
  record_.Begin(j);
  bool free = false, ok = false;
  if (!hopeless) {
    free = q.nodes == 1 ? PlaceOne(j) : PlaceGang(j);
    ok = free || (q.nodes == 1 ? ClearOne(j) : ClearGang(j));
  }
  record_.End(ok, free || started_);
  t_.Sync();  // everybody has read what the next step writes
  t_.ForEach(0, 1, [&](u32) {
    done_[j] = 1;
    if (ok && q.account != kNoAccount) spare_[q.account] += static_cast<int>(q.charge);
    if (!ok && !hopeless) Fail(q);
  });
  placed_ += ok;
  return ok;
}

template <class Team, class Record>
TENURE_PLAN_FUNCTION bool Trial<Team, Record>::Possible(const Job& q) {
  const auto able = [&](u32 n) {
    u64 picked = 0;
    return Usable(q, n) && Evaluate<true>(q.row, q.gpus, n, q.nodes, &picked) != kNone;
  };
  if (q.nodes == 1) {
    return kNone != t_.Min(0, w_.nodes, [&](u32 n) {
      const bool lane_ok = !(w_.node_flags[n] & kLaneNode) || (q.flags & kMayUseLane);
      const bool now =
          free_[n] >= q.gpus && q.ends <= w_.admit[n] && lane_ok && Fits(q, w_.node_group[n]);
      return now || able(n) ? u64{n} : kNone;
    });
  }
  const u32 level = q.flags & kInsideOne ? q.level : 0;
  return kNone != t_.Min(w_.level_begin[level], w_.level_begin[level + 1], [&](u32 i) {
    const Domain& d = w_.domain[i];
    if (q.pool != kAnyPool && q.pool != d.pool) return kNone;
    u32 room = Room(q, d);
    for (u32 n = w_.group_begin[d.first]; n < w_.group_begin[d.last] && room < q.nodes; ++n) {
      const bool free =
          fit_[q.width * w_.groups + w_.node_group[n]] >> (n - w_.group_begin[w_.node_group[n]]) &
          1;
      room += !free && able(n);
    }
    return room >= q.nodes ? u64{i} : kNone;
  });
}

// Whether any prefix of the ranking, unfunded work apart, loses more than in trial 0.
template <class Team, class Record>
TENURE_PLAN_FUNCTION bool Trial<Team, Record>::ShiftsLosses() {
  shifted_ = false;
  u64 mine = 0, before = 0;
  for (u32 c = 0; c < kUnfundedLoss; ++c) {
    mine += loss_[c];
    before += p_.guard.lost[c];
    if (mine > before) return true;
  }
  return false;
}

// With so many free GPUs on nodes in use; with 0, no plan that goes on from here is cheaper.
template <class Team, class Record>
TENURE_PLAN_FUNCTION u64 Trial<Team, Record>::PriceAt(u32 fragments) const {
  u64 price = u64{unplaced_} * w_.prices.wait + lost_;
  price += u64{delay_} >> w_.prices.drain_shift;
  price += u64{fragments} * w_.prices.fragment + u64{spans_} * w_.prices.span;
  const u64 most = kNone >> (kTrialBits + 1);
  return ((price < most ? price : most) << kTrialBits) | number_;
}

template <class Team, class Record>
TENURE_PLAN_FUNCTION u64 Trial<Team, Record>::Price() {
  return PriceAt(t_.Sum(0, w_.nodes, [&](u32 n) {
    return idle_[n] < w_.gpus[n] && !(w_.node_flags[n] & kLaneNode) ? free_[n] : 0u;
  }));
}

}  // namespace tenure::plan

#include "tenure/plan_clear.h"  // IWYU pragma: export
#include "tenure/plan_nodes.h"  // IWYU pragma: export
#include "tenure/plan_place.h"  // IWYU pragma: export

#endif  // TENURE_PLAN_TRIAL_H_
