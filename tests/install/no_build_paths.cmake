# The installed CMake package may name no file of the source or build tree: it must outlive both.
file(GLOB_RECURSE files ${PREFIX}/*.cmake)
if(NOT files)
  message(FATAL_ERROR "no CMake package below ${PREFIX}")
endif()
foreach(file IN LISTS files)
  file(READ ${file} text)
  string(REPLACE "${SOURCE}/.deps" "" text "${text}")  # where set-up may have built Kokkos: outside both
  string(FIND "${text}" "${SOURCE}" position)
  if(NOT position EQUAL -1)
    message(FATAL_ERROR "${file} names ${SOURCE}")
  endif()
endforeach()
