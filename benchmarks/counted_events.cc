// SPDX-License-Identifier: Apache-2.0
//
// Scenes whose instructions are counted by callgrind (instructions.py): a machine that is busy with
// other work does not change the counts. Each Counted_NAME runs kEvents events of one kind, or
// what it says; only what they call is counted, not the building of the scene.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "scenes.h"
#include "tenure/placement.h"
#include "tenure/reservation.h"
#include "tenure/scheduler.h"
#include "tenure/sim/institute.h"
#include "tenure/sim/simulate.h"

namespace tenure::bench {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

constexpr int kEvents = 100;

#define TENURE_COUNTED extern "C" __attribute__((noinline)) void

TENURE_COUNTED Counted_SubmitCancel(Site& site) {
  WorkloadSpec w;
  w.id = WorkloadId(1'000'000'000);
  w.allocation = site.leaves[3];
  w.minimum = hours(1);
  for (int i = 0; i < kEvents; ++i) {
    Require(site.scheduler.Submit(w, site.now));
    Require(site.scheduler.Cancel(w.id, site.now));
  }
}

TENURE_COUNTED Counted_BlockedPass(Site& site) {
  for (int i = 0; i < kEvents; ++i) {
    Require(site.scheduler.Decide(site.now).value()->starts.empty(), "something started");
  }
}

// Passes of a site with 100,000 leaf allocations, of which 15 run something and wait.
TENURE_COUNTED Counted_LeavesPass(Site& site) {
  for (int i = 0; i < kEvents; ++i) {
    site.now += std::chrono::milliseconds(1);
    Require(site.scheduler.Decide(site.now).value()->starts.empty(), "something started");
  }
}

TENURE_COUNTED Counted_EndAndRestart(Site& site, const std::vector<RunRef>& running) {
  for (int i = 0; i < kEvents; ++i) {
    const RunRef& r = running[static_cast<std::size_t>(i)];
    Require(site.scheduler.ReportEnded(r.workload, r.run, site.now));
    site.Pass();
  }
}

TENURE_COUNTED Counted_Stops(Site& site, std::size_t& stops) {
  stops = site.scheduler.Decide(site.now).value()->stops.size();
}

TENURE_COUNTED Counted_PartOfANode(Cluster& cluster, std::vector<NodeId>& nodes) {
  Shape shape;
  shape.gpus = 3;
  for (int i = 0; i < kEvents; ++i) {
    nodes.clear();
    Require(PlaceFree(cluster, shape, NoNodeScore{}, kNoNode, nodes), "must fit");
    cluster.Occupy(nodes[0], 1, 3, false);
    cluster.Vacate(nodes[0], 1, 3, false, false);
  }
}

TENURE_COUNTED Counted_Gang(const Cluster& cluster, std::vector<NodeId>& nodes) {
  Shape shape;
  shape.nodes = 128;
  shape.gpus = 8;
  for (int i = 0; i < kEvents; ++i) {
    nodes.clear();
    Require(PlaceFree(cluster, shape, NoNodeScore{}, kNoNode, nodes), "must fit");
  }
}

// A promised start for 64 whole nodes; before each something changes on 16 nodes.
TENURE_COUNTED Counted_Reservation(FullCluster& full, ReservationSearch& search) {
  const PolicyContext context{full.tree, full.ranking, full.now};
  const StoppableRuns stoppable;
  const VictimEnv env{full.cluster, full.table, full.ledger, stoppable, context};
  Shape shape;
  shape.nodes = 64;
  shape.gpus = 8;
  ReservationPlan plan;
  for (std::uint32_t i = 0; i < kEvents; ++i) {
    for (std::uint32_t n = 0; n < 16; ++n) full.cluster.Touch(NodeId(16 * i + 61 * n));
    search.Update(full.cluster, full.table);
    Require(search.Find(env, full.policy, shape, plan), "must find nodes");
  }
}

TENURE_COUNTED Counted_SimulatedPass(const sim::World& world, const sim::SimOptions& options,
                                     std::int64_t& passes) {
  passes = sim::Simulate(world, "budget", {}, options).value().passes;
}

// All nodes full, 5,000 requests of 15 leaves.
void Crowd(Site& site) {
  site.Fill(8, hours(8), 0, 15);
  site.Queue(5'000, 0, 15);
  site.now += minutes(1);
  for (int i = 0; i < 3; ++i) site.Pass();
}

void Queued() {
  Site site(1'000);
  Crowd(site);
  std::vector<RunRef> running;
  const WorkloadTable& table = site.scheduler.table();
  for (RunSlot s = 0; s < table.slots(); ++s) {
    if (table.run(s).state != WorkloadState::kRunning) continue;
    running.push_back({table.run(s).id, table.workload(s).run});
  }
  Counted_SubmitCancel(site);
  Counted_BlockedPass(site);
  Counted_EndAndRestart(site, running);
}

void ManyLeaves() {
  Site site(1'000, 100'000);
  Crowd(site);
  Counted_LeavesPass(site);
}

// 800 runs on 100 nodes are past their minimum, others want their GPUs.
std::size_t Preempting() {
  Site site(100);
  site.Fill(1, minutes(30), 0, 7);
  site.now += hours(10);
  site.Queue(800, 7, 15);
  std::size_t stops = 0;
  Counted_Stops(site, stops);
  return stops;
}

}  // namespace
}  // namespace tenure::bench

int main() {
  using namespace tenure;
  using namespace tenure::bench;
  Queued();
  ManyLeaves();
  const std::size_t stops = Preempting();
  Cluster cluster = MakeCluster(10'000);
  std::vector<NodeId> nodes;
  Counted_PartOfANode(cluster, nodes);
  Counted_Gang(cluster, nodes);
  FullCluster full(10'000);
  full.ProtectAll();
  ReservationSearch search;
  search.Update(full.cluster, full.table);
  Counted_Reservation(full, search);
  sim::InstituteOptions institute;
  institute.load = 1.7;
  institute.seed = 11;
  sim::SimOptions options;
  options.end = hours(24 * 4);
  const sim::World world = sim::GenerateInstitute(institute).value();
  std::int64_t passes = 0;
  Counted_SimulatedPass(world, options, passes);
  // How often each happened.
  for (const char* name : {"SubmitCancel", "BlockedPass", "EndAndRestart", "LeavesPass",
                           "PartOfANode", "Gang", "Reservation"}) {
    std::printf("%s %d\n", name, kEvents);
  }
  std::printf("Stops %zu\nSimulatedPass %lld\n", stops, static_cast<long long>(passes));
}
