# SPDX-License-Identifier: Apache-2.0
#
# Finds Abseil, yaml-cpp for scenario files, and for developer builds GoogleTest and Google
# Benchmark: installed packages by default, sources downloaded by FetchContent with TENURE_FETCH_DEPS.
if(TENURE_FETCH_DEPS)
  include(FetchContent)
  set(ABSL_PROPAGATE_CXX_STD ON)
  set(BENCHMARK_ENABLE_TESTING OFF)
  set(BENCHMARK_ENABLE_INSTALL OFF)
  set(INSTALL_GTEST OFF)
  if(NOT CMAKE_CXX_STANDARD)
    set(CMAKE_CXX_STANDARD 20) # one standard for Abseil and its users
  endif()
  FetchContent_Declare(
    absl
    GIT_REPOSITORY https://github.com/abseil/abseil-cpp.git
    GIT_TAG 20240722.0
    GIT_SHALLOW ON)
  FetchContent_Declare(
    googletest
    GIT_REPOSITORY https://github.com/google/googletest.git
    GIT_TAG v1.15.2
    GIT_SHALLOW ON)
  FetchContent_Declare(
    benchmark
    GIT_REPOSITORY https://github.com/google/benchmark.git
    GIT_TAG v1.9.0
    GIT_SHALLOW ON)
  FetchContent_Declare(
    yaml-cpp
    GIT_REPOSITORY https://github.com/jbeder/yaml-cpp.git
    GIT_TAG 0.8.0
    GIT_SHALLOW ON)
  FetchContent_MakeAvailable(absl)
  if(TENURE_SCENARIOS)
    FetchContent_MakeAvailable(yaml-cpp)
  endif()
  if(TENURE_TESTS)
    FetchContent_MakeAvailable(googletest)
  endif()
  if(TENURE_BENCHMARKS)
    FetchContent_MakeAvailable(benchmark)
  endif()
else()
  if(NOT TARGET absl::status)
    find_package(absl REQUIRED)
  endif()
  if(TENURE_SCENARIOS)
    find_package(yaml-cpp REQUIRED)
  endif()
  if(TENURE_TESTS)
    find_package(GTest REQUIRED)
  endif()
  if(TENURE_BENCHMARKS)
    find_package(benchmark REQUIRED)
  endif()
endif()
