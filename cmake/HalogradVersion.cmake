# halograd_version: the generated header "version.hpp". Written again with each build, because what a run reports as its
# revision must be what was compiled, not what was configured.
find_package(Git QUIET)
set(halograd_generated_dir ${PROJECT_BINARY_DIR}/generated)
set(halograd_write_version ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DOUTPUT=${halograd_generated_dir}/version.hpp
  -DPROJECT_VERSION=${PROJECT_VERSION} -DGIT=${GIT_EXECUTABLE} -P ${PROJECT_SOURCE_DIR}/cmake/HalogradWriteVersion.cmake)
execute_process(COMMAND ${halograd_write_version} COMMAND_ERROR_IS_FATAL ANY)
add_custom_target(halograd_version COMMAND ${halograd_write_version} COMMENT "Looking up the revision")
