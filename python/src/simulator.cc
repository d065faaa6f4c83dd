// SPDX-License-Identifier: Apache-2.0
//
// The simulator: options in, figures and, where asked for, the timeline out.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common.h"
#include "tenure/presets.h"
#include "tenure/sim/policies.h"
#include "tenure/sim/result.h"
#include "tenure/sim/simulate.h"
#include "tenure/sim/timeline.h"
#include "tenure/sim/workload.h"

namespace py = pybind11;

namespace tenure::python {
namespace {

using sim::World;

py::dict QuantilesDict(const sim::Quantiles& q) {
  py::dict out;
  out["p50"] = q.p50;
  out["p90"] = q.p90;
  out["p99"] = q.p99;
  return out;
}

py::dict SpreadDict(const sim::Spread& s) {
  py::dict out;
  out["p50"] = s.p50;
  out["p90"] = s.p90;
  out["max"] = s.max;
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
  out["sessions_suspended"] = m.sessions_suspended;
  out["gangs_done_share"] = m.gangs_done_share;
  out["gang_turnaround_s"] = QuantilesDict(m.gang_turnaround_s);
  out["promises"] = m.promises;
  out["promises_broken"] = m.promises_broken;
  out["promise_lateness_s"] = SpreadDict(m.promise_lateness_s);
  out["gang_to_reservation_s"] = SpreadDict(m.gang_to_reservation_s);
  out["gang_from_reservation_s"] = SpreadDict(m.gang_from_reservation_s);
  out["repairs"] = m.repairs;
  out["repairs_human"] = m.repairs_human;
  out["drains_late"] = m.drains_late;
  out["host_drain_h"] = SpreadDict(m.host_drain_h);
  out["runs_lost"] = m.runs_lost;
  out["failed_resumes"] = m.failed_resumes;
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
    entry["lost_gpu_h"] = leaf.lost_gpu_h;
    entry["owed_cum"] = leaf.owed_cum;
    entry["owed_strict"] = leaf.owed_strict;
    entry["owed_win7"] = leaf.owed_win7;
    entry["wait_s"] = QuantilesDict(leaf.wait_s);
    leaves.append(entry);
  }
  out["leaf"] = leaves;
  py::list forecasts;
  for (const sim::ForecastSample& f : m.forecasts) {
    py::dict entry;
    entry["predicted_s"] = f.predicted_s;
    entry["promised"] = f.promised;
    entry["actual_s"] = f.actual_s;
    entry["until_end_s"] = f.until_end_s;
    forecasts.append(entry);
  }
  out["forecasts"] = forecasts;
  return out;
}

template <typename Row>
py::array ToArray(const std::vector<Row>& rows) {
  return py::array_t<Row>(static_cast<py::ssize_t>(rows.size()), rows.data());
}

// Runs without the GIL. The interpreter is entered at most every 50 ms: to deliver a signal (so
// that Ctrl-C works) and to call `progress`; an exception there cancels the simulation and is
// raised. The clock is for that alone and never reaches the simulation.
py::dict Simulate(const World& world, const std::string& policy, const Parameters& parameters,
                  sim::SimOptions options, bool record, std::optional<std::uint32_t> explain,
                  const py::object& progress) {
  sim::Inspection inspection;
  if (explain.has_value()) {
    inspection.job = *explain;
    options.inspection = &inspection;
  }
  sim::Timeline timeline;
  if (record) options.timeline = &timeline;
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
  py::dict out = MetricsDict(*metrics);
  if (record) {
    out["runs"] = ToArray(timeline.runs);
    out["run_nodes"] = ToArray(timeline.nodes);
    out["promise_rows"] = ToArray(timeline.promises);
  }
  if (explain.has_value()) {
    out["explanation"] = py::none();
    if (inspection.explanation.has_value()) {
      out["explanation"] = ExplanationDict(*inspection.explanation);
    }
  }
  return out;
}

py::list PolicyParameters(const std::string& policy) {
  py::list out;
  for (const PolicyParameter& p : sim::PolicyParameters(policy)) {
    out.append(py::make_tuple(p.name, p.unit, p.help, p.default_value));
  }
  return out;
}

// (first_node, nodes, begin, end, announced), times in microseconds.
using MaintenanceTuple =
    std::tuple<std::int32_t, std::int32_t, std::int64_t, std::int64_t, std::int64_t>;

void SetMaintenance(sim::FaultOptions& options, const std::vector<MaintenanceTuple>& windows) {
  options.maintenance.clear();
  for (const auto& [first, nodes, begin, end, announced] : windows) {
    options.maintenance.push_back(
        {first, nodes, Duration(begin), Duration(end), Duration(announced)});
  }
}

void BindOptions(py::module_& m) {
  using Faults = sim::FaultOptions;
  py::class_<Faults>(m, "FaultOptions")
      .def(py::init())
      .def_property("mean_uptime_us", DurationGetter(&Faults::mean_uptime),
                    DurationSetter(&Faults::mean_uptime))
      .def_property("mean_unhealthy_us", DurationGetter(&Faults::mean_unhealthy),
                    DurationSetter(&Faults::mean_unhealthy))
      .def_property("mean_repair_us", DurationGetter(&Faults::mean_repair),
                    DurationSetter(&Faults::mean_repair))
      .def_property("negotiate_after_us", DurationGetter(&Faults::negotiate_after),
                    DurationSetter(&Faults::negotiate_after))
      .def_readwrite("hard_permille", &Faults::hard_permille)
      .def_readwrite("failed_resume_permille", &Faults::failed_resume_permille)
      .def_readwrite("seed", &Faults::seed)
      .def("set_maintenance", &SetMaintenance);
  using Options = sim::SimOptions;
  py::class_<Options>(m, "SimOptions")
      .def(py::init())
      .def_property("warmup_us", DurationGetter(&Options::warmup), DurationSetter(&Options::warmup))
      .def_property("end_us", DurationGetter(&Options::end), DurationSetter(&Options::end))
      .def_property("pass_interval_us", DurationGetter(&Options::pass_interval),
                    DurationSetter(&Options::pass_interval))
      .def_property("grace_us", DurationGetter(&Options::grace), DurationSetter(&Options::grace))
      .def_property("forecast_interval_us", DurationGetter(&Options::forecast_interval),
                    DurationSetter(&Options::forecast_interval))
      .def_readwrite("notice_permille", &Options::notice_permille)
      .def_readwrite("report_restorable", &Options::report_restorable)
      .def_readwrite("forecast_limits", &Options::forecast_limits)
      .def_readwrite("report_idle", &Options::report_idle)
      .def_readwrite("idle_nights_permille", &Options::idle_nights_permille)
      .def_readwrite("faults", &Options::faults);
}

}  // namespace

void BindSimulator(py::module_& m) {
  using sim::PromiseRow;
  using sim::RunRow;
  PYBIND11_NUMPY_DTYPE(RunRow, start_us, end_us, protected_us, job, end, first_node, beneficiary);
  PYBIND11_NUMPY_DTYPE(PromiseRow, made_us, start_by_us, job, reserved);
  m.attr("RUN_ENDS") = py::tuple(py::cast(sim::kRunEndNames));
  BindOptions(m);
  m.def("simulate", &Simulate, py::arg("world"), py::arg("policy"), py::arg("parameters"),
        py::arg("options"), py::kw_only(), py::arg("record"), py::arg("explain"),
        py::arg("progress"));
  m.def("policy_names", &sim::PolicyNames);
  m.def("policy_parameters", &PolicyParameters, py::arg("policy"));
}

}  // namespace tenure::python
