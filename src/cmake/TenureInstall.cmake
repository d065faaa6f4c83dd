# SPDX-License-Identifier: Apache-2.0
#
# What is installed, in two components, and the Debian package of both:
#   c      libtenure, tenure.h, pkg-config; find_package(tenure COMPONENTS c). Nothing of Abseil.
#   core   the C++ headers; find_package(tenure COMPONENTS core), which finds Abseil.
include(CMakePackageConfigHelpers)

set(tenure_package_dir "${CMAKE_INSTALL_DATADIR}/cmake/tenure")
set(tenure_components core)
if(TENURE_CAPI)
  list(APPEND tenure_components c)
endif()

# --- core -----------------------------------------------------------------------------------------
install(
  DIRECTORY "${PROJECT_SOURCE_DIR}/include/tenure"
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  COMPONENT core
  FILES_MATCHING
  PATTERN "*.h"
  PATTERN "tenure.h" EXCLUDE)
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

# --- c --------------------------------------------------------------------------------------------
if(TENURE_CAPI)
  install(
    FILES "${PROJECT_SOURCE_DIR}/include/tenure/tenure.h"
    DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/tenure"
    COMPONENT c)
  install(
    TARGETS tenure
    EXPORT tenure-c
    RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT c
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT c
    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT c)
  install(
    EXPORT tenure-c
    NAMESPACE tenure::
    FILE tenure-c-targets.cmake
    DESTINATION "${tenure_package_dir}"
    COMPONENT c)
  # Relative to the file, so that an installed copy can be moved.
  file(RELATIVE_PATH tenure_pc_prefix "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig"
       "${CMAKE_INSTALL_PREFIX}")
  configure_file("${PROJECT_SOURCE_DIR}/src/cmake/tenure.pc.in" "${PROJECT_BINARY_DIR}/tenure.pc"
                 @ONLY)
  install(
    FILES "${PROJECT_BINARY_DIR}/tenure.pc"
    DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig"
    COMPONENT c)
endif()

# --- both -----------------------------------------------------------------------------------------
configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/src/cmake/tenure-config.cmake.in" "${PROJECT_BINARY_DIR}/tenure-config.cmake"
  INSTALL_DESTINATION "${tenure_package_dir}")
# While the major version is 0, a minor version may break source compatibility.
write_basic_package_version_file(
  "${PROJECT_BINARY_DIR}/tenure-config-version.cmake"
  COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
foreach(component IN LISTS tenure_components)
  install(
    FILES "${PROJECT_BINARY_DIR}/tenure-config.cmake"
          "${PROJECT_BINARY_DIR}/tenure-config-version.cmake"
    DESTINATION "${tenure_package_dir}"
    COMPONENT ${component})
  install(
    FILES "${PROJECT_SOURCE_DIR}/LICENSE" "${PROJECT_SOURCE_DIR}/NOTICE"
    DESTINATION "${CMAKE_INSTALL_DOCDIR}"
    COMPONENT ${component})
endforeach()

# --- cpack -G DEB ---------------------------------------------------------------------------------
if(PROJECT_IS_TOP_LEVEL)
  set(CPACK_PACKAGE_NAME tenure)
  set(CPACK_PACKAGE_VENDOR "The Tenure authors")
  set(CPACK_PACKAGE_CONTACT "The Tenure authors <maintainers@tenure.invalid>")
  set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
  set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
  set(CPACK_GENERATOR DEB)
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
  set(CPACK_COMPONENTS_ALL ${tenure_components})
  set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
  set(CPACK_DEB_COMPONENT_INSTALL ON)
  set(CPACK_STRIP_FILES ON)
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_PACKAGE_SECTION libs)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
  set(CPACK_DEBIAN_PACKAGE_RECOMMENDS libabsl-dev)
  include(CPack)
endif()
