// SPDX-License-Identifier: Apache-2.0
//
// Changes the text of a scenario file so that it mostly stays one: lines move, words take the place
// of words, entries of the timeline are made from patterns. Random bytes would not get past the
// YAML reader. The same seed makes the same change.
#ifndef TENURE_TESTS_FUZZ_SCENARIO_MUTATOR_H_
#define TENURE_TESTS_FUZZ_SCENARIO_MUTATOR_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenure::fuzz {

class ScenarioMutator {
 public:
  explicit ScenarioMutator(std::uint32_t seed) : random_(seed) {}

  std::string Mutate(std::string_view text) {
    lines_ = Split(text);
    for (std::uint32_t n = 1 + Below(3); n > 0; --n) MutateOnce();
    return Join();
  }
  // Some lines of `other` in `text`.
  std::string Cross(std::string_view text, std::string_view other) {
    lines_ = Split(text);
    const std::vector<std::string> more = Split(other);
    if (more.empty()) return Join();
    const std::size_t begin = Below(more.size());
    const std::size_t end = std::min(more.size(), begin + 1 + Below(6));
    lines_.insert(lines_.begin() + static_cast<std::ptrdiff_t>(Below(lines_.size() + 1)),
                  more.begin() + static_cast<std::ptrdiff_t>(begin),
                  more.begin() + static_cast<std::ptrdiff_t>(end));
    return Join();
  }

 private:
  // $W: a word of the text, $T: a time, $N: a number, $K: a key of an expectation.
  static constexpr std::array kEntries = {
      "submit: {name: $W, team: $W, gpus: $N, nodes: $N, minimum: $T}",
      "submit: {name: new, team: $W, gpus: $N, minimum: $T, runtime: $T, checkpoint: $T}",
      "submit: {name: s, team: $W, minimum: $T, class: interactive, restart: $T, keeps_work: "
      "false}",
      "submit: {name: $W, id: $N, team: $W, gpus: $N, minimum: $T, bytes: 61 00}",
      "submit: {name: f, team: $W, gpus: $N, start_takes: $T, stop_takes: $T, resumable: false}",
      "submit: {name: g1..g3, team: $W, nodes: $N, topology: required, level: $N, priority: $N}",
      "cancel: $W",
      "started: $W",
      "started: {name: $W, run: $N, at: $T}",
      "start_failed: $W",
      "stop_failed: $W",
      "ended: {name: $W, run: $N, at: $T}",
      "stopped: {name: $W, run: $N, at: $T}",
      "ended: $W",
      "stopped: $W",
      "checkpoint: {name: $W, at: $T}",
      "idle: {name: $W, idle: false}",
      "idle: $W",
      "drain: $W",
      "up: $W",
      "fail: {name: $W, since: $T}",
      "fail: $W",
      "maintenance: {nodes: $W, from: $T, until: $T, as: m}",
      "cancel_maintenance: m",
      "add_node: {name: $W, gpus: $N, domain: a/b}",
      "add_team: {name: $W, parent: $W, weight: $N}",
      "weight: {team: $W, weight: $N, effective: $T}",
      "boost: {team: $W, weight: $N, from: $T, until: $T}",
      "charge_rate: {type: $W, permille: $N}",
      "move: {team: $W, to: $W}",
      "close: $W",
      "list: [$W, $W]",
      "list: {running: $W, ended: $W, unknown: []}",
      "decide: true",
      "restore: true",
      "restore: flipped",
      "make: {grace: $T, quantum: $T}",
      "expect: {$K: $W}",
      "expect: {$K: {$W: $T}}",
      "expect: {$K: {$W: $W}}",
      "expect: {metrics: {$W: {owed: $T, delivered: $T, credited: $T}}}",
  };
  static constexpr std::array kKeys = {
      "waiting",     "starting",    "running",        "stopping",      "done",
      "failed",      "cancelled",   "only_running",   "outcome",       "reason",
      "on",          "within",      "together",       "domains",       "starts",
      "first_start", "last_start",  "ended_at",       "promised",      "stops_of",
      "stops",       "stopped",     "stopped_any_of", "start_order",   "running_jobs",
      "done_jobs",   "used",        "unfunded_used",  "in_use",        "queued",
      "unfunded",    "entitlement", "rank",           "same_standing", "occupied",
      "free",        "healthy",     "drained",        "lookback",      "workloads",
      "not_drained", "name_bytes"};
  static constexpr std::array kTimes = {"0",   "1us", "10s",   "-1s", "30m",   "1h", "3h 1s",
                                        "-2h", "7d",  "never", "-7d", "1000d", "1ms"};
  static constexpr std::array kNumbers = {"0", "1", "2", "3", "4", "8", "9", "-1", "500", "0.5"};
  // Lines of the file itself.
  static constexpr std::array kLines = {
      "until: 1d",
      "pass_every: 1h",
      "options: {grace: 30s, quantum: 0s, gang: 2, first_credit: 0s}",
      "options: {lane_permille: 0, search_trials: 4, search_backend: cpu}",
      "options: {preemption_rate: 2, lookback: 3h, session_cap: 500}",
      "tree: {A: 1, B: {weight: 2, children: {C: 1, D: 0}}}",
      "cluster: [{name: n1..n3, gpus: 8, domain: r1}, {name: m1..m2, gpus: 4, type: b}]",
      "used: {A: 10h}",
      "health: {n1: draining, n2: down}",
      "running: [{name: r, team: A, gpus: 8, minimum: 1h, start: -2h, on: n1}]",
  };

  // splitmix64
  std::uint64_t Random() {
    std::uint64_t x = random_ += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }
  std::uint32_t Below(std::size_t n) { return static_cast<std::uint32_t>(Random() % n); }
  template <class List>
  const auto& Any(const List& list) {
    return list[Below(list.size())];
  }

  static std::vector<std::string> Split(std::string_view text) {
    std::vector<std::string> lines;
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      lines.emplace_back(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    return lines;
  }
  std::string Join() const {
    std::string text;
    for (const std::string& line : lines_) text.append(line).push_back('\n');
    return text;
  }

  // Where words of a line begin and end.
  static std::vector<std::pair<std::size_t, std::size_t>> Words(std::string_view line) {
    constexpr std::string_view kBreaks = " ,:{}[]\"";
    std::vector<std::pair<std::size_t, std::size_t>> words;
    for (std::size_t i = 0; (i = line.find_first_not_of(kBreaks, i)) < line.size();) {
      const std::size_t end = std::min(line.find_first_of(kBreaks, i), line.size());
      words.emplace_back(i, end);
      i = end;
    }
    return words;
  }
  // A word of the text; "x" if the line that is looked at has none.
  std::string AnyWord() {
    if (lines_.empty()) return "x";
    const std::string& line = Any(lines_);
    const auto words = Words(line);
    if (words.empty()) return "x";
    const auto [begin, end] = Any(words);
    return line.substr(begin, end - begin);
  }
  std::string Filled(std::string_view pattern) {
    std::string out;
    for (std::size_t i = 0; i < pattern.size(); ++i) {
      if (pattern[i] != '$') {
        out.push_back(pattern[i]);
        continue;
      }
      switch (pattern[++i]) {
        case 'W':
          out += AnyWord();
          break;
        case 'T':
          out += Any(kTimes);
          break;
        case 'N':
          out += Any(kNumbers);
          break;
        default:
          out += Any(kKeys);
      }
    }
    return out;
  }

  void MutateOnce() {
    if (lines_.empty()) lines_.emplace_back("timeline: []");
    const std::size_t at = Below(lines_.size());
    const auto here = lines_.begin() + static_cast<std::ptrdiff_t>(at);
    switch (Below(8)) {
      case 0:
        lines_.insert(here, Any(lines_));
        break;
      case 1:
        lines_.erase(here, here + 1 + Below(std::min<std::size_t>(3, lines_.size() - at)));
        break;
      case 2:
        std::swap(*here, lines_[Below(lines_.size())]);
        break;
      case 3:
      case 4: {
        const auto words = Words(*here);
        if (words.empty()) break;
        const auto [begin, end] = Any(words);
        const std::uint32_t how = Below(4);
        here->replace(begin, end - begin,
                      how == 0   ? AnyWord()
                      : how == 1 ? Any(kTimes)
                      : how == 2 ? Any(kNumbers)
                                 : Any(kKeys));
        break;
      }
      case 5: {
        const std::string line = Any(kLines);
        const std::string key = line.substr(0, line.find(':') + 1);
        // In place of the one that is there: a key must not come twice.
        const auto old = std::find_if(lines_.begin(), lines_.end(), [&](const std::string& l) {
          return l.compare(0, key.size(), key) == 0;
        });
        if (old != lines_.end()) {
          *old = line;
        } else {
          lines_.insert(lines_.begin(), line);
        }
        break;
      }
      default: {
        // After an entry of a timeline, and with the same indent.
        for (std::size_t i = 0; i < lines_.size(); ++i) {
          const std::size_t k = (at + i) % lines_.size();
          const std::size_t dash = lines_[k].find_first_not_of(' ');
          if (dash >= lines_[k].size() || lines_[k].compare(dash, 2, "- ") != 0) continue;
          std::string entry = std::string(dash, ' ') + "- {";
          if (Below(3) == 0) entry += "at: " + std::string(Any(kTimes)) + ", ";
          entry += Filled(Any(kEntries)) + "}";
          lines_.insert(lines_.begin() + static_cast<std::ptrdiff_t>(k), entry);
          break;
        }
      }
    }
  }

  std::uint64_t random_;
  std::vector<std::string> lines_;
};

}  // namespace tenure::fuzz

#endif  // TENURE_TESTS_FUZZ_SCENARIO_MUTATOR_H_
