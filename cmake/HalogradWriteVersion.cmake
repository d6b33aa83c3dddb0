# cmake -DSOURCE=<checkout> -DOUTPUT=<version.hpp> -DPROJECT_VERSION=<a.b.c> [-DGIT=<git>] -P HalogradWriteVersion.cmake
# Touches the header only when its text changes, so that a build without changes stays one.
set(HALOGRAD_GIT_REVISION unknown)
if(GIT AND EXISTS ${SOURCE}/.git)
  execute_process(COMMAND ${GIT} describe --always --dirty WORKING_DIRECTORY ${SOURCE}
    OUTPUT_VARIABLE described RESULT_VARIABLE status OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(status EQUAL 0)
    set(HALOGRAD_GIT_REVISION ${described})
  endif()
endif()
configure_file(${SOURCE}/lib/version.hpp.in ${OUTPUT} @ONLY)
