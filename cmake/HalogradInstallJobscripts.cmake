# Run while installing, with SOURCE, PREFIX and BINDIR: the jobscripts and their run files go to PREFIX/share/halograd, and know from
# there where they and the program lie. Slurm copies a script before it runs it, so that it cannot find that out itself.
set(home ${PREFIX}/share/halograd)
set(to $ENV{DESTDIR}${home})
file(INSTALL ${SOURCE}/jobscripts DESTINATION ${to} USE_SOURCE_PERMISSIONS
  PATTERN quickstart.sh EXCLUDE PATTERN setup-debian.sh EXCLUDE PATTERN __pycache__ EXCLUDE)
file(INSTALL ${SOURCE}/inputs DESTINATION ${to} PATTERN *.py EXCLUDE PATTERN runs EXCLUDE)
file(GLOB scripts ${to}/jobscripts/*.sbatch ${to}/jobscripts/site/default.sh)
foreach(script IN LISTS scripts)
  file(READ ${script} text)
  string(REPLACE "\${HALOGRAD_HOME:=$SLURM_SUBMIT_DIR}" "\${HALOGRAD_HOME:=${home}}" text "${text}")
  string(REGEX REPLACE "[$]HALOGRAD_HOME/build/[a-z]+/halograd" "${PREFIX}/${BINDIR}/halograd" text "${text}")
  string(REPLACE "built in this checkout" "installed beside it" text "${text}")
  file(WRITE ${script} "${text}")
endforeach()
