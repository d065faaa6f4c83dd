// SPDX-License-Identifier: Apache-2.0
//
// Does a better pass make a better month? The institute of the generator, 30 days after 7 days of
// warm-up, with the plan search off and with more and more trials.
//
//   plan_month [--load 1.7] [--seeds 51-56] [--trials 0,64,1024] [--interval 5] [--policy budget]
//              [--set name=value]...
//
// Prints a Markdown table: the mean over the seeds without a search, and for each number of trials
// the mean paired difference to it with a 95 % interval (Student's t). A difference whose interval
// holds 0 is noise.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tenure/presets.h"
#include "tenure/sim/institute.h"
#include "tenure/sim/policies.h"
#include "tenure/sim/simulate.h"

namespace {

using tenure::sim::Figure;
using tenure::sim::Metrics;

struct Row {
  const char* name;
  int digits;
  std::function<double(const Metrics&)> of;
};

double Or0(const Figure& f) { return f.value_or(0.0); }

const std::vector<Row>& Rows() {
  static const std::vector<Row> rows = {
      {"owed_cum", 4, [](const Metrics& m) { return Or0(m.owed_cum); }},
      {"worst leaf", 4, [](const Metrics& m) { return Or0(m.owed_cum_worst); }},
      {"worst program", 4, [](const Metrics& m) { return Or0(m.owed_cum_worst_program); }},
      {"goodput", 4, [](const Metrics& m) { return Or0(m.goodput); }},
      {"waste", 4, [](const Metrics& m) { return Or0(m.waste); }},
      {"preemptions per job", 3, [](const Metrics& m) { return Or0(m.preemptions_per_job); }},
      {"sessions stopped", 0, [](const Metrics& m) { return double(m.sessions_killed); }},
      {"gang wait p50, h", 1, [](const Metrics& m) { return Or0(m.wait_s[3].p50) / 3600; }},
      {"gang wait p90, h", 1, [](const Metrics& m) { return Or0(m.wait_s[3].p90) / 3600; }},
      {"gangs finished", 3, [](const Metrics& m) { return Or0(m.gangs_done_share); }},
      {"gang turnaround p90, h", 0,
       [](const Metrics& m) { return Or0(m.gang_turnaround_s.p90) / 3600; }},
      {"all waits p90, h", 2, [](const Metrics& m) { return Or0(m.wait_s[0].p90) / 3600; }},
      {"debug wait p90, s", 1, [](const Metrics& m) { return Or0(m.wait_s[1].p90); }},
      {"jobs done", 0, [](const Metrics& m) { return double(m.jobs_done); }},
  };
  return rows;
}

// Quantile 0.975 of Student's t.
double StudentT(std::size_t degrees) {
  constexpr double kTable[] = {12.71, 4.303, 3.182, 2.776, 2.571,
                               2.447, 2.365, 2.306, 2.262, 2.228};
  return degrees == 0 ? 0 : degrees <= 10 ? kTable[degrees - 1] : 2.0;
}

int Usage(const std::string& what) {
  std::fprintf(
      stderr,
      "%s\nusage: plan_month [--load L] [--seeds A-B] [--trials T,T,...] [--interval SECONDS]"
      " [--policy P] [--set NAME=VALUE]...\n",
      what.c_str());
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  double load = 1.7;
  std::uint64_t first = 51, last = 56;
  std::vector<std::string> trials = {"0", "64", "1024"};
  std::string policy = "budget";
  tenure::Parameters parameters;
  tenure::sim::SimOptions options;
  options.warmup = std::chrono::hours(24 * 7);
  options.end = std::chrono::hours(24 * 37);
  for (int i = 1; i < argc; i += 2) {
    const std::string flag = argv[i];
    if (i + 1 == argc) return Usage(flag + " needs a value");
    const std::string value = argv[i + 1];
    const std::vector<std::string> parts = absl::StrSplit(value, flag == "--set" ? '=' : '-');
    std::int64_t seconds = 0;
    bool ok = true;
    if (flag == "--load") {
      ok = absl::SimpleAtod(value, &load);
    } else if (flag == "--seeds") {
      ok = absl::SimpleAtoi(parts.front(), &first) && absl::SimpleAtoi(parts.back(), &last) &&
           first <= last;
    } else if (flag == "--trials") {
      trials = absl::StrSplit(value, ',');
    } else if (flag == "--interval") {
      ok = absl::SimpleAtoi(value, &seconds) && seconds > 0;
      options.pass_interval = std::chrono::seconds(seconds);
    } else if (flag == "--policy") {
      policy = value;
    } else if (flag == "--set" && parts.size() == 2) {
      parameters[parts[0]] = parts[1];
    } else {
      ok = false;
    }
    if (!ok) return Usage(absl::StrCat("cannot use ", flag, " ", value));
  }

  std::vector<std::vector<Metrics>> results(trials.size());
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    tenure::sim::InstituteOptions world_options;
    world_options.load = load;
    world_options.seed = seed;
    const auto world = tenure::sim::GenerateInstitute(world_options);
    if (!world.ok()) return Usage(world.status().ToString());
    for (std::size_t t = 0; t < trials.size(); ++t) {
      parameters["search_trials"] = trials[t];
      auto metrics = tenure::sim::Simulate(*world, policy, parameters, options);
      if (!metrics.ok()) return Usage(metrics.status().ToString());
      results[t].push_back(*std::move(metrics));
      std::fprintf(stderr, "seed %llu, %s trials: done\n", static_cast<unsigned long long>(seed),
                   trials[t].c_str());
    }
  }
  std::printf("%s, load %.2f, %zu seeds (%llu-%llu), a pass at most every %lld s\n\n",
              policy.c_str(), load, results[0].size(), static_cast<unsigned long long>(first),
              static_cast<unsigned long long>(last),
              static_cast<long long>(options.pass_interval.count() / 1'000'000));
  std::printf("| | %s trials |", trials[0].c_str());
  for (std::size_t t = 1; t < trials.size(); ++t)
    std::printf(" %s: difference |", trials[t].c_str());
  std::printf("\n|---|---|");
  for (std::size_t t = 1; t < trials.size(); ++t) std::printf("---|");
  std::printf("\n");
  for (const Row& row : Rows()) {
    const std::size_t n = results[0].size();
    double base = 0;
    for (const Metrics& m : results[0]) base += row.of(m) / double(n);
    std::printf("| %s | %.*f |", row.name, row.digits, base);
    for (std::size_t t = 1; t < trials.size(); ++t) {
      double mean = 0, square = 0;
      for (std::size_t s = 0; s < n; ++s)
        mean += (row.of(results[t][s]) - row.of(results[0][s])) / double(n);
      for (std::size_t s = 0; s < n; ++s) {
        const double d = row.of(results[t][s]) - row.of(results[0][s]) - mean;
        square += d * d;
      }
      const double half =
          n < 2 ? 0 : StudentT(n - 1) * std::sqrt(square / double(n - 1) / double(n));
      std::printf(" %+.*f ± %.*f%s |", row.digits, mean, row.digits, half,
                  n > 1 && std::fabs(mean) > half ? " *" : "");
    }
    std::printf("\n");
  }
  return 0;
}
