// SPDX-License-Identifier: Apache-2.0
//
// tenure_options_*: the parameters of a preset as text, the log and the hooks.
#include "face.h"

using tenure::MakePreset;
using tenure::Parameters;
using tenure::Preset;
using tenure::capi::Answer;
using tenure::capi::Guard;
using tenure::capi::Invalid;
using tenure::capi::ReadStruct;
using tenure::capi::WriteStruct;

namespace {

Answer NoOptions() { return Invalid("the options are NULL"); }

}  // namespace

extern "C" {

tenure_status tenure_options_create(const char* policy, tenure_options** out) {
  return Guard("tenure_options_create", [&]() -> Answer {
    if (out == nullptr) return Invalid("out is NULL");
    *out = nullptr;
    if (policy == nullptr) return Invalid("policy is NULL");
    if (!tenure::IsPreset(policy)) {
      return Answer(TENURE_ERROR_NOT_FOUND,
                    absl::StrCat("no scheduler policy '", policy, "'; there are ",
                                 absl::StrJoin(tenure::kPresetNames, ", ")));
    }
    auto options = std::make_unique<tenure_options>();
    options->policy = policy;
    options->known = MakePreset(policy).Bind().Describe();
    *out = options.release();
    return {};
  });
}

void tenure_options_destroy(tenure_options* options) { delete options; }

tenure_status tenure_options_set(tenure_options* options, const char* name, const char* value) {
  return Guard("tenure_options_set", [&]() -> Answer {
    if (options == nullptr) return NoOptions();
    if (name == nullptr) return Invalid("name is NULL");
    if (value == nullptr) return Invalid("the value of ", name, " is NULL");
    Parameters parameters = options->parameters;
    parameters[name] = value;
    Preset preset = MakePreset(options->policy);
    if (const absl::Status s = preset.Set(options->policy, parameters); !s.ok()) {
      const bool known = std::any_of(options->known.begin(), options->known.end(),
                                     [&](const auto& p) { return p.name == name; });
      return known ? Answer(s) : Answer(TENURE_ERROR_NOT_FOUND, std::string(s.message()));
    }
    options->parameters = std::move(parameters);
    return {};
  });
}

tenure_status tenure_options_count(const tenure_options* options, size_t* out_count) {
  return Guard("tenure_options_count", [&]() -> Answer {
    if (options == nullptr) return NoOptions();
    if (out_count == nullptr) return Invalid("out_count is NULL");
    *out_count = options->known.size();
    return {};
  });
}

tenure_status tenure_options_describe(const tenure_options* options, size_t index,
                                      tenure_parameter* out) {
  return Guard("tenure_options_describe", [&]() -> Answer {
    if (options == nullptr) return NoOptions();
    if (index >= options->known.size()) {
      return Answer(TENURE_ERROR_NOT_FOUND,
                    absl::StrCat("no parameter ", index, "; there are ", options->known.size()));
    }
    const tenure::PolicyParameter& p = options->known[index];
    tenure_parameter answer = TENURE_PARAMETER_INIT;
    answer.name = p.name.c_str();
    answer.unit = p.unit.c_str();
    answer.help = p.help.c_str();
    answer.default_value = p.default_value.c_str();
    return WriteStruct(answer, "out", out);
  });
}

tenure_status tenure_options_set_log(tenure_options* options, int32_t level,
                                     tenure_log_function function, void* user) {
  return Guard("tenure_options_set_log", [&]() -> Answer {
    if (options == nullptr) return NoOptions();
    if (level < TENURE_LOG_ERROR || level > TENURE_LOG_INFO) {
      return Invalid("unknown log level ", level);
    }
    options->log = {level, function, user};
    return {};
  });
}

tenure_status tenure_options_set_hooks(tenure_options* options, const tenure_policy_hooks* hooks) {
  return Guard("tenure_options_set_hooks", [&]() -> Answer {
    if (options == nullptr) return NoOptions();
    tenure_policy_hooks in = TENURE_POLICY_HOOKS_INIT;
    if (hooks != nullptr) {
      if (Answer a = ReadStruct(hooks, "hooks", in); !a.ok()) return a;
    }
    options->hooks = in;
    return {};
  });
}

}  // extern "C"
