# Install rules: headers, the compiled libraries if they were built by then (ReefCompiled.cmake), package config, version file, licence. ReefPkgConfig.cmake has those of pkg-config. The programs have theirs where they
# are declared (reef_program). The build folder is a package as well: -Dreef_DIR=build/release.

include(CMakePackageConfigHelpers)

set(reef_package_dir "${CMAKE_INSTALL_DATADIR}/cmake/reef")

# reef::reef, reef::cuda and the compiled libraries are written in the config itself: the MPI and the toolkit
# are the consumer's, and may be there when ours were not.
install(TARGETS reef_core EXPORT reef-core FILE_SET HEADERS)
install(EXPORT reef-core NAMESPACE reef:: DESTINATION "${reef_package_dir}" FILE reef-core.cmake)
export(EXPORT reef-core NAMESPACE reef:: FILE "${PROJECT_BINARY_DIR}/reef-core.cmake")
configure_file(cmake/ReefDependencies.cmake "${PROJECT_BINARY_DIR}/ReefDependencies.cmake" COPYONLY)
configure_file(cmake/ReefPrecompile.cmake "${PROJECT_BINARY_DIR}/ReefPrecompile.cmake" COPYONLY)

configure_package_config_file(cmake/reef-config.cmake.in "${PROJECT_BINARY_DIR}/reef-config.cmake"
  INSTALL_DESTINATION "${reef_package_dir}" NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/reef-config-version.cmake"
  COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES
  "${PROJECT_BINARY_DIR}/reef-config.cmake"
  "${PROJECT_BINARY_DIR}/reef-config-version.cmake"
  "${PROJECT_SOURCE_DIR}/cmake/ReefDependencies.cmake"
  "${PROJECT_SOURCE_DIR}/cmake/ReefPrecompile.cmake"
  DESTINATION "${reef_package_dir}")

install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}")
