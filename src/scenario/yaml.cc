// SPDX-License-Identifier: Apache-2.0
#include "yaml.h"

#include <cctype>
#include <limits>
#include <utility>

#include "absl/numeric/int128.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tenure::scenario {
namespace {

constexpr std::size_t kMaxRange = 2'000'000;

// A number with units in microseconds, or nothing.
std::optional<std::int64_t> ParseTime(std::string_view text) {
  absl::int128 total = 0;
  bool negative = false, any = false;
  std::size_t i = 0;
  const auto space = [&] {
    while (i < text.size() && text[i] == ' ') ++i;
  };
  space();
  if (i < text.size() && (text[i] == '-' || text[i] == '+')) negative = text[i++] == '-';
  for (space(); i < text.size(); space()) {
    const std::size_t digits = i;
    while (i < text.size() && std::isdigit(static_cast<unsigned char>(text[i]))) ++i;
    std::int64_t number = 0;
    if (!absl::SimpleAtoi(std::string(text.substr(digits, i - digits)), &number)) {
      return std::nullopt;
    }
    const std::size_t letters = i;
    while (i < text.size() && std::isalpha(static_cast<unsigned char>(text[i]))) ++i;
    const std::string_view unit = text.substr(letters, i - letters);
    std::int64_t scale = 0;
    if (unit.empty() || unit == "s") scale = 1'000'000;
    if (unit == "us") scale = 1;
    if (unit == "ms") scale = 1'000;
    if (unit == "m" || unit == "min") scale = 60'000'000;
    if (unit == "h") scale = 3'600'000'000;
    if (unit == "d") scale = 86'400'000'000;
    if (scale == 0) return std::nullopt;
    total += absl::int128(number) * scale;
    any = true;
  }
  // No scheduler takes a later time; and sums of a few of them fit.
  if (!any || total > kTimeLimit.count()) return std::nullopt;
  if (negative) total = -total;
  return static_cast<std::int64_t>(total);
}

}  // namespace

int LineOf(const YAML::Node& node) { return node.IsDefined() ? node.Mark().line + 1 : 0; }

void Fail(const YAML::Node& at, std::string what) {
  throw BadScenario{LineOf(at), std::move(what)};
}

std::string ToText(const YAML::Node& node) {
  if (!node.IsDefined() || !node.IsScalar()) Fail(node, "expected a text");
  return node.Scalar();
}

std::int64_t ToInt(const YAML::Node& node) {
  std::int64_t value = 0;
  if (!absl::SimpleAtoi(ToText(node), &value)) {
    Fail(node, absl::StrCat("'", ToText(node), "' is not a whole number"));
  }
  return value;
}

std::uint64_t ToUnsigned(const YAML::Node& node) {
  std::uint64_t value = 0;
  if (!absl::SimpleAtoi(ToText(node), &value)) {
    Fail(node, absl::StrCat("'", ToText(node), "' is not a whole number >= 0"));
  }
  return value;
}

std::int64_t ToIntIn(const YAML::Node& node, std::int64_t least, std::int64_t most) {
  const std::int64_t value = ToInt(node);
  if (value < least || value > most) {
    Fail(node, absl::StrCat(value, " is not in [", least, ", ", most, "]"));
  }
  return value;
}

double ToDouble(const YAML::Node& node) {
  try {
    return node.as<double>();
  } catch (const YAML::Exception&) {
    Fail(node, "expected a number");
  }
}

bool ToBool(const YAML::Node& node) {
  bool value = false;
  if (!absl::SimpleAtob(ToText(node), &value)) {
    Fail(node, absl::StrCat("'", ToText(node), "' is neither true nor false"));
  }
  return value;
}

Duration ToDuration(const YAML::Node& node) {
  const std::optional<std::int64_t> us = ParseTime(ToText(node));
  if (!us.has_value()) {
    Fail(node, absl::StrCat("'", ToText(node), "' is no time; write 90s, 2h, 7d or seconds"));
  }
  return Duration(*us);
}

GpuTime ToGpuTime(const YAML::Node& node) { return GpuTime(ToDuration(node).count()); }

MilliGpu ToMilliGpu(const YAML::Node& node) {
  const std::string text = ToText(node);
  const std::size_t point = text.find('.');
  std::string digits = text.substr(0, point);
  std::string rest = point == std::string::npos ? "" : text.substr(point + 1);
  if (rest.size() > 3) Fail(node, absl::StrCat("'", text, "' has more than three decimals"));
  rest.resize(3, '0');
  std::int64_t value = 0;
  if (!absl::SimpleAtoi(digits + rest, &value)) {
    Fail(node, absl::StrCat("'", text, "' is not a number of GPUs"));
  }
  return MilliGpu(value);
}

std::vector<std::string> ExpandName(const std::string& name) {
  const std::size_t dots = name.find("..");
  if (dots == std::string::npos) return {name};
  const std::string first = name.substr(0, dots), last = name.substr(dots + 2);
  const auto split = [](const std::string& s) {
    std::size_t i = s.size();
    while (i > 0 && std::isdigit(static_cast<unsigned char>(s[i - 1]))) --i;
    return std::pair(s.substr(0, i), s.substr(i));
  };
  const auto [prefix, from_text] = split(first);
  const auto [prefix2, to_text] = split(last);
  std::int64_t from = 0, to = 0;
  if (prefix != prefix2 || !absl::SimpleAtoi(from_text, &from) || !absl::SimpleAtoi(to_text, &to) ||
      to < from || static_cast<std::size_t>(to - from) >= kMaxRange) {
    return {};
  }
  std::vector<std::string> names;
  for (std::int64_t i = from; i <= to; ++i) names.push_back(absl::StrCat(prefix, i));
  return names;
}

std::vector<std::string> ToNames(const YAML::Node& node) {
  std::vector<std::string> names;
  const auto add = [&](const YAML::Node& item) {
    const std::string text = ToText(item);
    std::vector<std::string> some = ExpandName(text);
    if (some.empty()) Fail(item, absl::StrCat("'", text, "' is no range of names"));
    names.insert(names.end(), some.begin(), some.end());
  };
  if (node.IsDefined() && node.IsSequence()) {
    for (const YAML::Node& item : node) add(item);
  } else {
    add(node);
  }
  return names;
}

std::string ToBytes(const YAML::Node& node) {
  std::string hex;
  for (const char c : ToText(node)) {
    if (c == ' ') continue;
    if (!std::isxdigit(static_cast<unsigned char>(c))) Fail(node, "expected hexadecimal bytes");
    hex.push_back(c);
  }
  if (hex.size() % 2 != 0) Fail(node, "expected hexadecimal bytes");
  return absl::HexStringToBytes(hex);
}

std::string Show(Duration d) {
  if (d == kNever.time_since_epoch()) return "never";
  const std::uint64_t us = d.count() < 0 ? 0 - static_cast<std::uint64_t>(d.count())
                                         : static_cast<std::uint64_t>(d.count());
  std::string out = absl::StrCat(d.count() < 0 ? "-" : "", us / 1'000'000);
  if (us % 1'000'000 != 0) {
    std::string part = absl::StrCat(us % 1'000'000);
    part.insert(0, 6 - part.size(), '0');
    while (part.back() == '0') part.pop_back();
    absl::StrAppend(&out, ".", part);
  }
  return out + "s";
}

Fields::Fields(const YAML::Node& node, std::string what) : node_(node), what_(std::move(what)) {
  if (!node.IsDefined() || !node.IsMap()) Fail(node, absl::StrCat(what_, ": expected fields"));
}

bool Fields::Has(const std::string& key) {
  known_.insert(key);
  const YAML::Node& node = node_;
  return node[key].IsDefined();
}

YAML::Node Fields::Get(const std::string& key) {
  known_.insert(key);
  const YAML::Node& node = node_;
  return node[key];
}

YAML::Node Fields::Require(const std::string& key) {
  if (!Has(key)) Fail(node_, absl::StrCat(what_, ": '", key, "' is missing"));
  return Get(key);
}

void Fields::Finish() const {
  for (const auto& entry : node_) {
    if (known_.contains(entry.first.Scalar())) continue;
    Fail(entry.first, absl::StrCat(what_, " has no '", entry.first.Scalar(), "'; it has ",
                                   absl::StrJoin(known_, ", ")));
  }
}

std::string Fields::Text(const std::string& key, std::string otherwise) {
  return Has(key) ? ToText(Get(key)) : std::move(otherwise);
}
std::int64_t Fields::Int(const std::string& key, std::int64_t otherwise) {
  return Has(key) ? ToInt(Get(key)) : otherwise;
}
std::int64_t Fields::IntIn(const std::string& key, std::int64_t otherwise, std::int64_t least,
                           std::int64_t most) {
  return Has(key) ? ToIntIn(Get(key), least, most) : otherwise;
}
bool Fields::Bool(const std::string& key, bool otherwise) {
  return Has(key) ? ToBool(Get(key)) : otherwise;
}
Duration Fields::Time(const std::string& key, Duration otherwise) {
  return Has(key) ? ToDuration(Get(key)) : otherwise;
}

}  // namespace tenure::scenario
