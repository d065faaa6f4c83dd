// SPDX-License-Identifier: Apache-2.0
//
// The trial of plan_trial.h on a GPU: one block a trial, blocks stay and take the next one. All
// that decides is in plan_trial.h; here are the team of threads, one kernel and the memory.
#define TENURE_PLAN_FUNCTION __host__ __device__ __forceinline__
#ifdef __CUDA_ARCH__
#define TENURE_PLAN_POPCOUNT(x) static_cast<tenure::plan::u32>(__popcll(x))
#define TENURE_PLAN_LOWEST(x) static_cast<tenure::plan::u32>(__ffsll(static_cast<long long>(x)) - 1)
#define TENURE_PLAN_HIGHEST(x) \
  static_cast<tenure::plan::u32>(63 - __clzll(static_cast<long long>(x)))
#else
#define TENURE_PLAN_POPCOUNT(x) static_cast<tenure::plan::u32>(__builtin_popcountll(x))
#define TENURE_PLAN_LOWEST(x) static_cast<tenure::plan::u32>(__builtin_ctzll(x))
#define TENURE_PLAN_HIGHEST(x) (63u - static_cast<tenure::plan::u32>(__builtin_clzll(x)))
#endif

#include <cuda_runtime.h>

#include <cstring>
#include <utility>
#include <vector>

#include "plan_device.h"
#include "tenure/plan_trial.h"

namespace tenure::plan {
namespace {

// --- The team ------------------------------------------------------------------------------------

// A block of kThreads threads; `slot` is one shared u64 for each of its warps.
template <int kThreads>
struct BlockTeam {
  u64* slot;

  __device__ __forceinline__ void Sync() {
    if (kThreads == 32) {
      __syncwarp();
    } else {
      __syncthreads();
    }
  }
  template <class F>
  __device__ __forceinline__ void ForEach(u32 b, u32 e, F f) {
    for (u32 i = b + threadIdx.x; i < e; i += kThreads) f(i);
    Sync();
  }
  template <class F>
  __device__ __forceinline__ u64 Min(u32 b, u32 e, F f) {
    u64 least = kNone;
    for (u32 i = b + threadIdx.x; i < e; i += kThreads) {
      const u64 key = f(i);
      least = key < least ? key : least;
    }
    return Reduce(least, [](u64 x, u64 y) { return x < y ? x : y; });
  }
  template <class F>
  __device__ __forceinline__ u64 MinBelow(u32 b, u32 e, F f) {
    u64 least = kNone;
    for (u32 i = b + threadIdx.x; i < e; i += kThreads) {
      const u64 key = f(i, least);
      least = key < least ? key : least;
    }
    return Reduce(least, [](u64 x, u64 y) { return x < y ? x : y; });
  }
  template <class F>
  __device__ __forceinline__ u32 Sum(u32 b, u32 e, F f) {
    u32 sum = 0;
    for (u32 i = b + threadIdx.x; i < e; i += kThreads) sum += f(i);
    return static_cast<u32>(Reduce(sum, [](u64 x, u64 y) { return x + y; }));
  }
  template <class F>
  __device__ __forceinline__ u64 Or(u32 b, u32 e, F f) {
    u64 bits = 0;
    for (u32 i = b + threadIdx.x; i < e; i += kThreads) bits |= f(i);
    return Reduce(bits, [](u64 x, u64 y) { return x | y; });
  }

 private:
  template <class Op>
  __device__ __forceinline__ u64 Reduce(u64 value, Op op) {
    for (int o = 16; o > 0; o >>= 1) value = op(value, __shfl_xor_sync(0xffffffffu, value, o));
    if (kThreads > 32) {
      if ((threadIdx.x & 31) == 0) slot[threadIdx.x >> 5] = value;
      __syncthreads();
      value = slot[0];
      for (int i = 1; i < kThreads / 32; ++i) value = op(value, slot[i]);
    }
    Sync();
    return value;
  }
};

// `spill`: the scratch memory of all blocks where shared memory is too small, else nullptr.
template <int kThreads>
__global__ void __launch_bounds__(kThreads)
    SearchKernel(World world, Params params, unsigned long long* best, u8* spill, u32 stride) {
  extern __shared__ __align__(16) u8 shared[];
  __shared__ u64 slot[kThreads / 32];
  u8* scratch = spill != nullptr ? spill + size_t{blockIdx.x} * stride : shared;
  BlockTeam<kThreads> team{slot};
  u64 least = kNone;
  for (u32 i = blockIdx.x; i < params.trials; i += gridDim.x) {
    Trial<BlockTeam<kThreads>> trial(world, params, team, params.first_trial + i, scratch);
    const u64 price = trial.Run();
    least = price < least ? price : least;
    params.beat = least < params.beat ? least : params.beat;
    team.Sync();
  }
  if (threadIdx.x == 0) atomicMin(best, static_cast<unsigned long long>(least));
}

// --- Memory --------------------------------------------------------------------------------------

bool Check(cudaError_t status, const char* what, std::string* error) {
  if (status == cudaSuccess) return true;
  *error = std::string(what) + ": " + cudaGetErrorString(status);
  cudaGetLastError();  // forgets what can be forgotten
  return false;
}

// Device memory that grows and is freed with its owner.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  ~DeviceBuffer() { cudaFree(data_); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  u8* data() const { return data_; }
  bool Reserve(size_t bytes, std::string* error) {
    if (bytes <= size_) return true;
    cudaFree(data_);
    data_ = nullptr;
    size_ = 0;
    void* fresh = nullptr;
    if (!Check(cudaMalloc(&fresh, bytes), "cudaMalloc", error)) return false;
    data_ = static_cast<u8*>(fresh);
    size_ = bytes;
    return true;
  }

 private:
  u8* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace

struct PlanDevice::State {
  std::string name;
  int processors = 0, shared_bytes = 0;
  cudaStream_t stream = nullptr;
  DeviceBuffer world_memory, guard_memory, spill_memory, best_memory;
  std::vector<u8> staging;
  World world{};  // pointers into world_memory
  u32 scratch_bytes = 0;

  ~State() {
    if (stream != nullptr) cudaStreamDestroy(stream);
  }

  // Appends an array to the staging area; its offset.
  template <class T>
  size_t Stage(const T* data, size_t count) {
    const size_t at = (staging.size() + 15) & ~size_t{15};
    staging.resize(at + count * sizeof(T));
    if (count > 0) std::memcpy(staging.data() + at, data, count * sizeof(T));
    return at;
  }
  bool Upload(DeviceBuffer& to, std::string* error) {
    if (!to.Reserve(staging.size() + 16, error)) return false;
    return Check(cudaMemcpyAsync(to.data(), staging.data(), staging.size(), cudaMemcpyHostToDevice,
                                 stream),
                 "cudaMemcpyAsync", error) &&
           Check(cudaStreamSynchronize(stream), "cudaStreamSynchronize", error);
  }
  template <int kThreads>
  bool Launch(const Params& params, std::string* error);
};

PlanDevice::PlanDevice(std::unique_ptr<State> state) : state_(std::move(state)) {}
PlanDevice::~PlanDevice() = default;
const std::string& PlanDevice::name() const { return state_->name; }

std::unique_ptr<PlanDevice> PlanDevice::Open(std::string* error) {
  int devices = 0, device = 0;
  if (!Check(cudaGetDeviceCount(&devices), "no CUDA device", error)) return nullptr;
  if (devices == 0) {
    *error = "no CUDA device";
    return nullptr;
  }
  auto state = std::make_unique<State>();
  cudaDeviceProp properties{};
  if (!Check(cudaGetDevice(&device), "cudaGetDevice", error) ||
      !Check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties", error) ||
      !Check(cudaDeviceGetAttribute(&state->shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin,
                                    device),
             "cudaDeviceGetAttribute", error) ||
      !Check(cudaStreamCreateWithFlags(&state->stream, cudaStreamNonBlocking),
             "cudaStreamCreateWithFlags", error) ||
      !state->best_memory.Reserve(sizeof(u64), error)) {
    return nullptr;
  }
  state->name = properties.name;
  state->processors = properties.multiProcessorCount;
  if (properties.major < 8) {
    *error = state->name + " is older than compute capability 8.0";
    return nullptr;
  }
  return std::unique_ptr<PlanDevice>(new PlanDevice(std::move(state)));
}

bool PlanDevice::Load(const World& w, std::string* error) {
  State& s = *state_;
  s.staging.clear();
  std::vector<std::pair<const void**, size_t>> fields;
  World d = w;
  const auto put = [&](auto& field, size_t count) {
    fields.emplace_back(reinterpret_cast<const void**>(&field), s.Stage(field, count));
  };
  put(d.gpus, w.nodes);
  put(d.idle, w.nodes);
  put(d.soon, w.nodes);
  put(d.most, w.nodes);
  put(d.sessions, w.nodes);
  put(d.node_flags, w.nodes);
  put(d.admit, w.nodes);
  put(d.release, w.nodes);
  put(d.node_group, w.nodes);
  put(d.occupant_begin, size_t{w.nodes} + 1);
  put(d.occupant, w.occupants);
  put(d.group_begin, size_t{w.groups} + 1);
  put(d.group_pool, w.groups);
  put(d.group_lane, w.groups);
  put(d.level_begin, size_t{w.levels} + 1);
  put(d.domain, w.domains);
  put(d.reserved_node, w.reserved);
  put(d.host_node, w.hosts);
  put(d.job, w.jobs);
  put(d.victim, w.victims);
  put(d.victim_node, w.victim_parts);
  put(d.rights, size_t{w.rows} * w.victims);
  put(d.spare, w.accounts);
  put(d.implies, size_t{w.kinds} * kKindWords);
  if (!s.Upload(s.world_memory, error)) return false;
  for (const auto& [field, at] : fields) *field = s.world_memory.data() + at;
  s.world = d;
  s.scratch_bytes = LayoutOf(w).bytes;
  return true;
}

template <int kThreads>
bool PlanDevice::State::Launch(const Params& params, std::string* error) {
  constexpr u32 kStatic = 1024;  // of shared memory, for the slots of the team
  const bool fits = scratch_bytes + kStatic <= static_cast<u32>(shared_bytes);
  const u32 dynamic = fits ? scratch_bytes : 0, stride = (scratch_bytes + 255) & ~u32{255};
  if (!Check(
          cudaFuncSetAttribute(SearchKernel<kThreads>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(dynamic)),
          "cudaFuncSetAttribute", error)) {
    return false;
  }
  int resident = 0;
  if (!Check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, SearchKernel<kThreads>,
                                                           kThreads, dynamic),
             "cudaOccupancyMaxActiveBlocksPerMultiprocessor", error)) {
    return false;
  }
  u32 blocks = static_cast<u32>(processors * (resident > 0 ? resident : 1));
  if (blocks > params.trials) blocks = params.trials;
  if (!fits && !spill_memory.Reserve(size_t{blocks} * stride, error)) return false;
  SearchKernel<kThreads><<<blocks, kThreads, dynamic, stream>>>(
      world, params, reinterpret_cast<unsigned long long*>(best_memory.data()),
      fits ? nullptr : spill_memory.data(), stride);
  return Check(cudaGetLastError(), "launch", error);
}

bool PlanDevice::Best(const Params& host, u64* price, std::string* error) {
  State& s = *state_;
  Params params = host;
  if (host.trials == 0) {
    *price = kNone;
    return true;
  }
  if (host.guard.unplaced != nullptr) {
    s.staging.clear();
    const size_t unplaced = s.Stage(host.guard.unplaced, s.world.bands);
    const size_t lost = s.Stage(host.guard.lost, kLossClasses);
    if (!s.Upload(s.guard_memory, error)) return false;
    params.guard.unplaced = reinterpret_cast<const u32*>(s.guard_memory.data() + unplaced);
    params.guard.lost = reinterpret_cast<const u32*>(s.guard_memory.data() + lost);
  }
  if (!Check(cudaMemsetAsync(s.best_memory.data(), 0xff, sizeof(u64), s.stream), "cudaMemsetAsync",
             error)) {
    return false;
  }
  // A warp a trial for small clusters: no barrier wider than a warp.
  const bool launched = s.world.nodes <= 4096    ? s.Launch<32>(params, error)
                        : s.world.nodes <= 16384 ? s.Launch<64>(params, error)
                                                 : s.Launch<256>(params, error);
  u64 best = kNone;
  if (!launched ||
      !Check(cudaMemcpyAsync(&best, s.best_memory.data(), sizeof(best), cudaMemcpyDeviceToHost,
                             s.stream),
             "cudaMemcpyAsync", error) ||
      !Check(cudaStreamSynchronize(s.stream), "cudaStreamSynchronize", error)) {
    return false;
  }
  *price = best;
  return true;
}

}  // namespace tenure::plan
