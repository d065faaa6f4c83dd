// SPDX-License-Identifier: Apache-2.0
//
// What a plan search looks at: one pass of the scheduler as plain arrays, so that the same code can
// try plans on one core, on many and on a GPU.
//
//   tenure::plan::WorldData data;             // plan_search.h: owns the arrays
//   tenure::plan::World world = data.View();  // what a trial reads
//
// Plain old data and C++17 only: this header and plan_trial.h are compiled by CUDA compilers too,
// which define the TENURE_PLAN_* macros before they include it. Units: GPUs, minutes, GPU-minutes;
// protections are rounded up and the room left before a promised start is rounded down, so that
// rounding never admits what the exact times would not.
//
// Limits: 63 GPUs a node, 64 stoppable runs a node, 64 nodes a group (larger domains are several
// groups), 4 widths of gangs, 256 kinds, 2^20 trials, 2^24 nodes.
#ifndef TENURE_PLAN_WORLD_H_
#define TENURE_PLAN_WORLD_H_

#include <cstddef>
#include <cstdint>

#ifndef TENURE_PLAN_FUNCTION  // a CUDA compiler needs __host__ __device__ here
#define TENURE_PLAN_FUNCTION inline
#define TENURE_PLAN_POPCOUNT(x) tenure::plan::PopCount(x)
#define TENURE_PLAN_LOWEST(x) static_cast<tenure::plan::u32>(__builtin_ctzll(x))
#define TENURE_PLAN_HIGHEST(x) (63u - static_cast<tenure::plan::u32>(__builtin_clzll(x)))
#endif

namespace tenure::plan {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

// Where trials are made.
enum class BackendKind : u8 {
  kOff = 0,  // nowhere
  kCpu = 1,
  kCuda = 2,
  kAuto = 3,  // CUDA where there is a device and it is expected to be sooner
};
constexpr const char* ToString(BackendKind kind) {
  constexpr const char* kNames[] = {"off", "cpu", "cuda", "auto"};
  return kNames[static_cast<std::size_t>(kind)];
}

// Inline on every CPU: without the instruction the compiler would call a library function.
inline u32 PopCount(u64 x) {
  x -= (x >> 1) & 0x5555555555555555u;
  x = (x & 0x3333333333333333u) + ((x >> 2) & 0x3333333333333333u);
  x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fu;
  return static_cast<u32>((x * 0x0101010101010101u) >> 56);
}

inline constexpr u64 kNone = ~u64{0};
inline constexpr u32 kNone32 = ~u32{0};
inline constexpr u32 kMaxGpus = 63;
inline constexpr u32 kMaxGroup = 64;
inline constexpr u32 kMaxOccupants = 64;
inline constexpr u32 kMaxWidths = 4;
inline constexpr u32 kMaxKinds = 256;
inline constexpr u32 kKindWords = kMaxKinds / 64;
inline constexpr u32 kChoiceShift = 12;  // a policy's cost of a stop, in these units
inline constexpr u32 kTrialBits = 20;
inline constexpr u32 kMaxTrials = u32{1} << kTrialBits;
inline constexpr u16 kAnyPool = 0xffff;
inline constexpr u16 kNoAccount = 0xffff;
// Losses are added up by the rank of the loser: 0 the most under-served. The last class is unfunded
// work, which has no rank.
inline constexpr u32 kLossClasses = 64;
inline constexpr u32 kUnfundedLoss = kLossClasses - 1;

// Of a request.
enum JobFlag : u8 {
  kMayUseLane = 1,
  kLaneFirst = 2,
  kSession = 4,    // goes where sessions are
  kInsideOne = 8,  // the gang needs one domain of its level
};
// Of a node.
enum NodeFlag : u8 {
  kLaneNode = 1,
  kReservedNode = 2,  // promised to a gang: admits what is over in time
};

struct Job {
  u32 weight;  // GPUs it asks for
  u32 charge;  // what it takes of its account's share, in thousandths of a GPU
  u32 nodes;
  u32 row;      // of the rights table: which runs it may stop
  u16 band;     // never served at the expense of a lower number
  u16 account;  // its leaf, or kNoAccount
  u16 protect;  // minutes that it will be protected
  u16 pool;     // GPU type, or kAnyPool
  u8 gpus;      // per node
  u8 width;     // gangs: index of `gpus` among the widths
  u8 level;     // gangs: of the domains it wants to be inside
  u8 flags;
  u16 kind;  // equal kinds have equal chances
  u16 ends;  // minutes until its protection must be over where a node is promised
};
struct Victim {
  u64 choice;        // what the policy says a stop costs, scaled
  u32 lost;          // GPU-minutes of work
  u32 charge;        // thousandths of a GPU
  u32 first, count;  // its nodes in victim_nodes
  u16 account;       // its leaf, or kNoAccount (unfunded)
  u8 loss_class;
  u8 funded;
};
struct Part {  // of a run on a node, or the reverse
  u32 id;
  u32 gpus;
};
struct Domain {  // groups [first, last) of one pool
  u32 first, last;
  u32 pool;
};
enum Right : u8 {
  kNever = 0,
  kAlways = 1,
  kWithinSpare = 2,  // as long as its account has this much above its floor
};

// GPU-minutes for what a plan leaves behind: the common unit in which plans are compared.
struct Prices {
  u32 wait = 30;        // a GPU asked for and not given in this pass
  u32 drain_shift = 4;  // a GPU that becomes interruptible a minute later: 1 / 2^drain_shift
  u32 fragment = 2;     // a free GPU on a node that is partly in use
  u32 span = 4;         // a further domain that a gang is spread over
};

// Read only during a search; in host memory or, copied, in device memory.
struct World {
  u32 nodes, groups, domains, levels, jobs, kinds, rows, victims, victim_parts, occupants, accounts,
      bands, widths, reserved, hosts, protect_wait;
  u32 sizes;  // one more than the GPUs of the largest node
  u32 stops;  // funded runs that may be stopped in this pass
  Prices prices;
  u8 width_gpus[kMaxWidths];
  // by node
  const u8* gpus;
  const u8* idle;  // not occupied
  const u8* soon;  // free once the stops under way are confirmed, less what is claimed
  const u8* most;  // `soon` and what all runs on it that may be stopped have
  const u8* sessions;
  const u8* node_flags;
  const u16* admit;    // protections must be over in this many minutes (reserved nodes)
  const u16* release;  // minutes until the last protection on it ends
  const u32* node_group;
  const u32* occupant_begin;  // [nodes + 1]
  const Part* occupant;       // victims on a node, cheapest first
  // by group: nodes [group_begin[g], group_begin[g + 1])
  const u32* group_begin;
  const u16* group_pool;
  const u8* group_lane;
  // domains of level l: [level_begin[l], level_begin[l + 1]); level 0: whole pools
  const u32* level_begin;
  const Domain* domain;
  const u32* reserved_node;  // nodes with that flag
  const u32* host_node;      // nodes with sessions
  const Job* job;            // in policy order, bands ascending
  const Victim* victim;
  const Part* victim_node;  // ascending nodes
  const u8* rights;         // [rows * victims], Right
  const int* spare;         // by account: charge above its floor, thousandths of a GPU
  const u64* implies;       // [kinds * kKindWords]: which kinds fail if this one did
};

// What trial 0 left: no other trial may leave more waiting in any band, nor let any prefix of the
// ranking lose more.
struct Guard {
  const u32* unplaced = nullptr;  // [bands]; nullptr: no guard
  const u32* lost = nullptr;      // [kLossClasses]
};
struct Params {
  u32 seed = 0;
  u32 first_trial = 0;
  u32 trials = 1;
  u64 beat = kNone;  // a trial at this price or above is as good as void
  Guard guard;
};

// One trial's scratch memory, offsets in bytes.
struct Layout {
  u32 fit, able, mask, reach, held, stale, failed, sum, base, cost, base_least, least, spare,
      spare_before, loss, release, idle, soon, most, free, free_count, most_count, clearable,
      killed, done, bytes;
};
TENURE_PLAN_FUNCTION u32 Align8(u32 x) { return (x + 7) & ~u32{7}; }
TENURE_PLAN_FUNCTION Layout LayoutOf(const World& w) {
  Layout l{};
  u32 at = 0;
  l.fit = at, at += w.groups * w.widths * 8;
  l.able = at, at += w.groups * w.widths * 8;
  l.mask = at, at += w.groups * 8;
  l.reach = at, at += w.groups * 8;
  l.held = at, at += w.groups * 8;
  l.stale = at, at += w.groups * 8;
  l.failed = at, at += kKindWords * 8;
  l.sum = at, at += w.groups * 8;
  l.base = at, at += Align8(w.nodes * 4);
  l.cost = at, at += Align8(w.nodes * 4);
  l.base_least = at, at += Align8(w.groups * 4);
  l.least = at, at += Align8(w.groups * 4);
  l.spare = at, at += Align8(w.accounts * 4);
  l.spare_before = at, at += Align8(w.accounts * 4);
  l.loss = at, at += kLossClasses * 4;
  l.release = at, at += Align8(w.nodes * 2);
  l.idle = at, at += Align8(w.nodes);
  l.soon = at, at += Align8(w.nodes);
  l.most = at, at += Align8(w.nodes);
  l.free = at, at += Align8(w.nodes);
  l.free_count = at, at += Align8(w.groups * w.sizes);
  l.most_count = at, at += Align8(w.groups * w.sizes);
  l.clearable = at, at += Align8(w.groups);
  l.killed = at, at += Align8(w.victims);
  l.done = at, at += Align8(w.jobs);
  l.bytes = at;
  return l;
}

// A counter hash: no generator state, so a trial is a function of its number.
TENURE_PLAN_FUNCTION u32 Mix(u32 a, u32 b, u32 c) {
  u64 x = (u64{a} << 32) ^ (u64{b} * 0x9E3779B97F4A7C15ull) ^ (u64{c} * 0xBF58476D1CE4E5B9ull);
  x ^= x >> 30;
  x *= 0xBF58476D1CE4E5B9ull;
  x ^= x >> 27;
  x *= 0x94D049BB133111EBull;
  x ^= x >> 31;
  return static_cast<u32>(x);
}

// 64 bits into 32, monotone: five bits of exponent, 27 of mantissa. Below kNoCost.
inline constexpr u32 kNoCost = kNone32;
TENURE_PLAN_FUNCTION u32 Compress(u64 x) {
  if (x < (u64{1} << 27)) return static_cast<u32>(x);
  const u32 shift = TENURE_PLAN_HIGHEST(x) - 26;
  if (shift > 30) return kNoCost - 1;
  return (shift << 27) + static_cast<u32>(x >> shift) - (u32{1} << 26);
}

}  // namespace tenure::plan

#endif  // TENURE_PLAN_WORLD_H_
