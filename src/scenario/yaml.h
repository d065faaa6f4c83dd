// SPDX-License-Identifier: Apache-2.0
//
// Values of a scenario file: units, ranges of names, and errors that name the line.
#ifndef TENURE_SCENARIO_YAML_H_
#define TENURE_SCENARIO_YAML_H_

#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tenure/types.h"

namespace tenure::scenario {

// The text is no scenario. Thrown inside this library only; RunScenario makes a status of it.
struct BadScenario {
  int line;  // 1-based, 0 if unknown
  std::string what;
};

int LineOf(const YAML::Node& node);
[[noreturn]] void Fail(const YAML::Node& at, std::string what);

std::string ToText(const YAML::Node& node);
std::int64_t ToInt(const YAML::Node& node);
std::int64_t ToIntIn(const YAML::Node& node, std::int64_t least, std::int64_t most);
std::uint64_t ToUnsigned(const YAML::Node& node);
double ToDouble(const YAML::Node& node);
bool ToBool(const YAML::Node& node);

// "90s", "-2h", "7d 1s", "250ms", "3us"; a bare number is in seconds. At most kTimeLimit.
Duration ToDuration(const YAML::Node& node);
// A product of GPUs and a time in the same grammar: "1000h" is 1,000 GPU-hours, 14400 is 14,400
// GPU-seconds.
GpuTime ToGpuTime(const YAML::Node& node);
// GPUs with up to three digits after the point.
MilliGpu ToMilliGpu(const YAML::Node& node);

// A name or a list of names; "n1..n5" stands for n1, n2, n3, n4, n5.
std::vector<std::string> ToNames(const YAML::Node& node);
std::vector<std::string> ExpandName(const std::string& name);

// "66 FC 72": the bytes.
std::string ToBytes(const YAML::Node& node);

// Seconds for people: "120s", "0.25s".
std::string Show(Duration d);
inline std::string Show(TimePoint t) { return Show(t.time_since_epoch()); }
// GPU-seconds.
inline std::string Show(GpuTime t) { return Show(Duration(t.value())); }

// The fields of a map, each to be asked for; Finish refuses the others.
class Fields {
 public:
  Fields(const YAML::Node& node, std::string what);
  bool Has(const std::string& key);
  // Undefined node if absent.
  YAML::Node Get(const std::string& key);
  YAML::Node Require(const std::string& key);
  void Finish() const;
  const YAML::Node& node() const { return node_; }

  std::string Text(const std::string& key, std::string otherwise);
  std::int64_t Int(const std::string& key, std::int64_t otherwise);
  std::int64_t IntIn(const std::string& key, std::int64_t otherwise, std::int64_t least,
                     std::int64_t most);
  bool Bool(const std::string& key, bool otherwise);
  Duration Time(const std::string& key, Duration otherwise);

 private:
  YAML::Node node_;
  std::string what_;
  std::set<std::string> known_;
};

}  // namespace tenure::scenario

#endif  // TENURE_SCENARIO_YAML_H_
