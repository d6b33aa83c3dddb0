# halograd_options: what every target here is compiled with, and no user of the installed library sees.
add_library(halograd_options INTERFACE)
target_compile_options(halograd_options INTERFACE -Wall -Wextra)
if(NOT CMAKE_UNITY_BUILD)  # there, sources see the names of those before them
  target_compile_options(halograd_options INTERFACE -Wshadow)
endif()
# g++ takes anonymous namespaces of sources that are compiled together for those of a header.
target_compile_options(halograd_options INTERFACE
  "$<$<AND:$<CXX_COMPILER_ID:GNU>,$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>>:-Wno-subobject-linkage>")
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")  # a loop marked simd that clang leaves scalar is slower, not wrong
  target_compile_options(halograd_options INTERFACE -Wno-pass-failed)
endif()
if(HALOGRAD_WERROR)
  target_compile_options(halograd_options INTERFACE -Werror)
endif()
if(HALOGRAD_NATIVE)
  target_compile_options(halograd_options INTERFACE -march=native)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    target_compile_options(halograd_options INTERFACE -mprefer-vector-width=512)
  endif()
endif()
if(HALOGRAD_SANITIZE)
  target_compile_options(halograd_options INTERFACE -fsanitize=${HALOGRAD_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(halograd_options INTERFACE -fsanitize=${HALOGRAD_SANITIZE})
endif()

# target_precompile_headers: what most sources include takes half of their compile time. Compilers for devices, which read a
# source more than once, have no precompiled headers.
function(halograd_precompile)
  if(NOT Kokkos_DEVICES MATCHES "CUDA|HIP")
    target_precompile_headers(${ARGV})
  endif()
endfunction()
