// SPDX-License-Identifier: Apache-2.0
//
// Workload tables, generators and the simulator.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common.h"
#include "tenure/presets.h"
#include "tenure/sim/institute.h"
#include "tenure/sim/policies.h"
#include "tenure/sim/result.h"
#include "tenure/sim/simulate.h"
#include "tenure/sim/workload.h"

namespace py = pybind11;

namespace tenure::python {
namespace {

using sim::JobRow;
using sim::World;
using LeafTuple = std::pair<std::string, std::vector<double>>;

// The table is copied once into the world, so that nobody can change it under a running
// simulation; from there on it is only viewed.
std::shared_ptr<World> MakeWorld(std::int32_t nodes, std::int32_t gpus_per_node,
                                 std::int32_t nodes_per_rack, const std::vector<LeafTuple>& leaves,
                                 const py::array& jobs, std::vector<std::string> assumptions) {
  if (!py::dtype::of<JobRow>().equal(jobs.dtype())) {
    Throw(absl::InvalidArgumentError("jobs do not have dtype JOB_DTYPE"));
  }
  if (jobs.ndim() != 1) {
    Throw(absl::InvalidArgumentError(
        absl::StrCat("jobs have ", jobs.ndim(), " dimensions, must have 1")));
  }
  const auto rows = py::array_t<JobRow, py::array::c_style>::ensure(jobs);
  if (!rows) throw py::error_already_set();
  auto world = std::make_shared<World>();
  world->cluster = {nodes, gpus_per_node, nodes_per_rack};
  world->leaves.reserve(leaves.size());
  for (const auto& [path, weights] : leaves) world->leaves.push_back({path, weights});
  world->jobs.resize(static_cast<std::size_t>(rows.size()));
  if (!world->jobs.empty()) {
    std::memcpy(world->jobs.data(), rows.data(), world->jobs.size() * sizeof(JobRow));
  }
  world->assumptions = std::move(assumptions);
  ThrowIfError(sim::CheckWorld(*world));
  return world;
}

// A read-only view that keeps the world alive.
py::array JobsView(const py::object& self) {
  const auto& world = self.cast<const World&>();
  py::array view(py::dtype::of<JobRow>(), {static_cast<py::ssize_t>(world.jobs.size())},
                 {static_cast<py::ssize_t>(sizeof(JobRow))}, world.jobs.data(), self);
  view.attr("setflags")(py::arg("write") = false);
  return view;
}

std::vector<LeafTuple> Leaves(const World& world) {
  std::vector<LeafTuple> out;
  out.reserve(world.leaves.size());
  for (const sim::LeafSpec& leaf : world.leaves) out.emplace_back(leaf.path, leaf.weights);
  return out;
}

py::dict QuantilesDict(const sim::Quantiles& q) {
  py::dict out;
  out["p50"] = q.p50;
  out["p90"] = q.p90;
  out["p99"] = q.p99;
  return out;
}

// Every figure under its JSON name.
py::dict MetricsDict(const sim::Metrics& m) {
  py::dict out;
  out["owed_cum"] = m.owed_cum;
  out["owed_cum_worst"] = m.owed_cum_worst;
  out["owed_strict"] = m.owed_strict;
  out["owed_win7"] = m.owed_win7;
  out["owed_win7_worst"] = m.owed_win7_worst;
  out["owed_cum_worst_program"] = m.owed_cum_worst_program;
  out["leaves"] = m.leaves;
  out["leaves_ge_95"] = m.leaves_ge_95;
  out["goodput"] = m.goodput;
  out["waste"] = m.waste;
  out["occupancy"] = m.occupancy;
  out["availability"] = m.availability;
  out["unfunded_share"] = m.unfunded_share;
  py::dict wait;
  for (std::size_t i = 0; i < sim::kWaitGroups; ++i) {
    wait[sim::kWaitGroupNames[i]] = QuantilesDict(m.wait_s[i]);
  }
  out["wait_s"] = wait;
  out["preemptions_per_job"] = m.preemptions_per_job;
  out["repreempted_1h_share"] = m.repreempted_1h_share;
  out["sessions_killed"] = m.sessions_killed;
  out["gangs_done_share"] = m.gangs_done_share;
  out["gang_turnaround_s"] = QuantilesDict(m.gang_turnaround_s);
  out["jobs"] = m.jobs;
  out["jobs_done"] = m.jobs_done;
  out["jobs_running"] = m.jobs_running;
  out["jobs_queued"] = m.jobs_queued;
  out["jobs_withdrawn"] = m.jobs_withdrawn;
  out["jobs_failed"] = m.jobs_failed;
  out["jobs_never_fit"] = m.jobs_never_fit;
  out["events"] = m.events;
  out["passes"] = m.passes;
  out["starts"] = m.starts;
  out["preemptions"] = m.preemptions;
  out["decision_digest"] = m.decision_digest;
  py::list leaves;
  for (const sim::LeafResult& leaf : m.leaf) {
    py::dict entry;
    entry["share"] = leaf.share;
    entry["owed_gpu_h"] = leaf.owed_gpu_h;
    entry["delivered_gpu_h"] = leaf.delivered_gpu_h;
    entry["owed_cum"] = leaf.owed_cum;
    entry["owed_strict"] = leaf.owed_strict;
    entry["owed_win7"] = leaf.owed_win7;
    leaves.append(entry);
  }
  out["leaf"] = leaves;
  return out;
}

// Runs without the GIL. The interpreter is entered at most every 50 ms: to deliver a signal (so
// that Ctrl-C works) and to call `progress`; an exception there cancels the simulation and is
// raised. The clock is for that alone and never reaches the simulation.
py::dict Simulate(const World& world, const std::string& policy, const Parameters& parameters,
                  std::int64_t warmup_us, std::int64_t end_us, std::int64_t pass_interval_us,
                  std::int64_t grace_us, std::int64_t notice_permille, bool report_idle,
                  const py::object& progress) {
  sim::SimOptions options;
  options.warmup = Duration(warmup_us);
  options.end = Duration(end_us);
  options.pass_interval = Duration(pass_interval_us);
  options.grace = Duration(grace_us);
  options.notice_permille = notice_permille;
  options.report_idle = report_idle;
  std::optional<py::error_already_set> error;
  auto last = std::chrono::steady_clock::now();
  const sim::ProgressFn report = [&](double fraction) {
    const auto now = std::chrono::steady_clock::now();
    if (now - last < std::chrono::milliseconds(50)) return true;
    last = now;
    const py::gil_scoped_acquire acquire;
    try {
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
      if (!progress.is_none()) progress(fraction);
    } catch (py::error_already_set& raised) {
      error.emplace(std::move(raised));
      return false;
    }
    return true;
  };
  absl::StatusOr<sim::Metrics> metrics;
  {
    const py::gil_scoped_release release;
    metrics = sim::Simulate(world, policy, parameters, options, report);
  }
  if (error.has_value()) throw py::error_already_set(std::move(*error));
  if (!metrics.ok()) Throw(metrics.status());
  return MetricsDict(*metrics);
}

std::shared_ptr<World> GenerateInstitute(double load, std::uint64_t seed, int days,
                                         int warmup_days) {
  sim::InstituteOptions options;
  options.load = load;
  options.seed = seed;
  options.days = days;
  options.warmup_days = warmup_days;
  absl::StatusOr<World> world;
  {
    const py::gil_scoped_release release;
    world = sim::GenerateInstitute(options);
  }
  return std::make_shared<World>(ValueOrThrow(std::move(world)));
}

py::list PolicyParameters(const std::string& policy) {
  py::list out;
  for (const PolicyParameter& p : sim::PolicyParameters(policy)) {
    out.append(py::make_tuple(p.name, p.unit, p.help, p.default_value));
  }
  return out;
}

}  // namespace

void BindSimulator(py::module_& m) {
  PYBIND11_NUMPY_DTYPE(JobRow, submit_us, runtime_us, minimum_us, limit_us, checkpoint_us,
                       restart_us, patience_us, leaf, user, nodes, gpus_per_node, priority,
                       workload_class, flags, source_row);
  m.attr("JOB_DTYPE") = py::dtype::of<JobRow>();
  py::dict flags;
  flags["resumable"] = static_cast<std::uint32_t>(sim::kResumable);
  flags["idle"] = static_cast<std::uint32_t>(sim::kIdle);
  flags["checkpoint_on_notice"] = static_cast<std::uint32_t>(sim::kCheckpointOnNotice);
  m.attr("JOB_FLAGS") = flags;
  py::list classes;
  for (std::size_t i = 0; i < kWorkloadClasses; ++i) {
    classes.append(ToString(static_cast<WorkloadClass>(i)));
  }
  m.attr("WORKLOAD_CLASSES") = py::tuple(classes);

  py::class_<World, std::shared_ptr<World>>(m, "World")
      .def(py::init(&MakeWorld), py::kw_only(), py::arg("nodes"), py::arg("gpus_per_node"),
           py::arg("nodes_per_rack"), py::arg("leaves"), py::arg("jobs"), py::arg("assumptions"))
      .def_property_readonly("nodes", [](const World& w) { return w.cluster.nodes; })
      .def_property_readonly("gpus_per_node",
                             [](const World& w) { return w.cluster.gpus_per_node; })
      .def_property_readonly("nodes_per_rack",
                             [](const World& w) { return w.cluster.nodes_per_rack; })
      .def_property_readonly("leaves", &Leaves)
      .def_property_readonly("jobs", &JobsView)
      .def_property_readonly("assumptions", [](const World& w) { return w.assumptions; });

  m.def("generate_institute", &GenerateInstitute, py::kw_only(), py::arg("load"), py::arg("seed"),
        py::arg("days"), py::arg("warmup_days"));
  m.def("simulate", &Simulate, py::arg("world"), py::arg("policy"), py::arg("parameters"),
        py::kw_only(), py::arg("warmup_us"), py::arg("end_us"), py::arg("pass_interval_us"),
        py::arg("grace_us"), py::arg("notice_permille"), py::arg("report_idle"),
        py::arg("progress"));
  m.def("policy_names", &sim::PolicyNames);
  m.def("policy_parameters", &PolicyParameters, py::arg("policy"));
}

}  // namespace tenure::python
