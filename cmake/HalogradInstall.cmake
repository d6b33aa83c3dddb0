# The program, the two libraries, their headers, jobscripts, and a CMake package for outside projects:
#   find_package(halograd CONFIG REQUIRED); target_link_libraries(... halograd::halograd)
include(CMakePackageConfigHelpers)
set(halograd_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/halograd)
set(halograd_header_dir ${CMAKE_INSTALL_INCLUDEDIR}/halograd)

install(TARGETS halograd_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS halograd_kernels halograd EXPORT halogradTargets)
install(DIRECTORY kernels DESTINATION ${halograd_header_dir} FILES_MATCHING PATTERN *.hpp)
# Not those that lead to headers of HDF5, toml11 or nlohmann-json, which the package does not ask for.
install(DIRECTORY lib/ DESTINATION ${halograd_header_dir} FILES_MATCHING PATTERN *.hpp
  REGEX "/(hdf5|config/toml11.hpp|convert/import_file.hpp|support/json.hpp)$" EXCLUDE
  REGEX "/data/(hdf5_fields|hdf5_labels|hdf5_rows|row_stream).hpp$" EXCLUDE
  REGEX "/io/(checkpoint_layout|edge_metrics|origin_attributes|parallel_file|row_chunks).hpp$" EXCLUDE)
install(FILES ${halograd_generated_dir}/version.hpp DESTINATION ${halograd_header_dir})

install(CODE "set(SOURCE \"${PROJECT_SOURCE_DIR}\")
set(PREFIX \"\${CMAKE_INSTALL_PREFIX}\")
set(BINDIR \"${CMAKE_INSTALL_BINDIR}\")
include(\"${PROJECT_SOURCE_DIR}/cmake/HalogradInstallJobscripts.cmake\")")

install(EXPORT halogradTargets NAMESPACE halograd:: DESTINATION ${halograd_package_dir})
configure_package_config_file(cmake/halogradConfig.cmake.in ${PROJECT_BINARY_DIR}/halogradConfig.cmake
  INSTALL_DESTINATION ${halograd_package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/halogradConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/halogradConfig.cmake ${PROJECT_BINARY_DIR}/halogradConfigVersion.cmake
  DESTINATION ${halograd_package_dir})
