# SPDX-License-Identifier: Apache-2.0
#
# Headers and the CMake package. Consumers: find_package(tenure REQUIRED COMPONENTS core).
include(CMakePackageConfigHelpers)

set(tenure_package_dir "${CMAKE_INSTALL_DATADIR}/cmake/tenure")

install(
  DIRECTORY "${PROJECT_SOURCE_DIR}/include/tenure"
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  COMPONENT core
  FILES_MATCHING
  PATTERN "*.h")
install(
  TARGETS tenure_core
  EXPORT tenure-core
  COMPONENT core)
install(
  EXPORT tenure-core
  NAMESPACE tenure::
  FILE tenure-core-targets.cmake
  DESTINATION "${tenure_package_dir}"
  COMPONENT core)

configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/src/cmake/tenure-config.cmake.in" "${PROJECT_BINARY_DIR}/tenure-config.cmake"
  INSTALL_DESTINATION "${tenure_package_dir}")
# While the major version is 0, a minor version may break source compatibility.
write_basic_package_version_file(
  "${PROJECT_BINARY_DIR}/tenure-config-version.cmake"
  COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(
  FILES "${PROJECT_BINARY_DIR}/tenure-config.cmake"
        "${PROJECT_BINARY_DIR}/tenure-config-version.cmake"
  DESTINATION "${tenure_package_dir}"
  COMPONENT core)
install(
  FILES "${PROJECT_SOURCE_DIR}/LICENSE" "${PROJECT_SOURCE_DIR}/NOTICE"
  DESTINATION "${CMAKE_INSTALL_DOCDIR}"
  COMPONENT core)
