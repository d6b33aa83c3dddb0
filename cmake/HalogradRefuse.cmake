# halograd_refuse(parts...): ends configuring with the parts as one line. The leading space keeps CMake from wrapping it.
function(halograd_refuse)
  string(CONCAT line ${ARGN})
  message(FATAL_ERROR " halograd: ${line}")
endfunction()
