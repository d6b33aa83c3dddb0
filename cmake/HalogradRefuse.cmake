# halograd_refuse(parts...): ends configuring with the parts as one line. The leading space keeps CMake from wrapping it.
function(halograd_refuse)
  set(line "")
  math(EXPR last "${ARGC} - 1")
  foreach(index RANGE ${last})  # by number, for ARGN would take the semicolons out
    string(APPEND line "${ARGV${index}}")
  endforeach()
  message(FATAL_ERROR " halograd: ${line}")
endfunction()
