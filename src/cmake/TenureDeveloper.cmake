# SPDX-License-Identifier: Apache-2.0
#
# Flags for Tenure's own binaries; users of the library get none of them.
#   tenure_developer   link it to get the warnings (as errors with TENURE_WERROR)
# The sanitizers of TENURE_SANITIZE apply to everything built from here on.
add_library(tenure_developer INTERFACE)
target_compile_options(
  tenure_developer
  INTERFACE
    "$<$<COMPILE_LANG_AND_ID:CXX,GNU,Clang,AppleClang>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wconversion>"
)
if(TENURE_WERROR)
  target_compile_options(tenure_developer
                         INTERFACE "$<$<COMPILE_LANG_AND_ID:CXX,GNU,Clang,AppleClang>:-Werror>")
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 12)
  # False positives in std::string at -O2 and up: https://gcc.gnu.org/PR105651
  target_compile_options(tenure_developer INTERFACE -Wno-restrict)
endif()

if(TENURE_SANITIZE)
  add_compile_options(-fsanitize=${TENURE_SANITIZE} -fno-sanitize-recover=all
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${TENURE_SANITIZE})
  # Programs in C that load the library, which is C++: UBSan has a part for that.
  if(CMAKE_C_COMPILER_ID MATCHES "Clang" AND TENURE_SANITIZE MATCHES "undefined")
    add_link_options("$<$<LINK_LANGUAGE:C>:-fsanitize-link-c++-runtime;-lstdc++>")
  endif()
endif()
