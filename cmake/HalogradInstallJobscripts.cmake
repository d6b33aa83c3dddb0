# Run while installing, with SOURCE, PREFIX and BINDIR: the licence, the jobscripts and their run files go to
# PREFIX/share/halograd, and jobscripts know from there where they and the program lie. Slurm copies a script before it runs
# it, so that it cannot find that out itself.
cmake_path(ABSOLUTE_PATH PREFIX)
cmake_path(ABSOLUTE_PATH BINDIR BASE_DIRECTORY "${PREFIX}")
set(home "${PREFIX}/share/halograd")
file(INSTALL "${SOURCE}/LICENSE" DESTINATION "${home}")
# file(INSTALL) itself puts DESTDIR before it. Modes are not the checkout's, which a umask may have kept from others.
file(INSTALL "${SOURCE}/jobscripts" DESTINATION "${home}"
  PATTERN quickstart.sh EXCLUDE PATTERN setup-debian.sh EXCLUDE PATTERN __pycache__ EXCLUDE
  PATTERN plot_*.py PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
file(INSTALL "${SOURCE}/inputs" DESTINATION "${home}" PATTERN make_digits.py EXCLUDE PATTERN __pycache__ EXCLUDE PATTERN runs EXCLUDE)
set(to "$ENV{DESTDIR}${home}")
file(GLOB scripts "${to}/jobscripts/*.sbatch" "${to}/jobscripts/site/default.sh")
foreach(script IN LISTS scripts)
  file(READ "${script}" text)
  string(REPLACE "\${HALOGRAD_HOME:=$SLURM_SUBMIT_DIR}" "\${HALOGRAD_HOME:=${home}}" text "${text}")
  string(REGEX REPLACE "[$]HALOGRAD_HOME/build/[a-z]+/halograd" "${BINDIR}/halograd" text "${text}")
  string(REPLACE "built in this checkout" "installed beside it" text "${text}")
  file(WRITE "${script}" "${text}")
endforeach()
