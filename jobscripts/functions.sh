# shellcheck shell=bash
# What the batch scripts in this folder share. They read it inside a job; it prints to the job's log.

# shellcheck source=jobscripts/heal.sh
. "$HALOGRAD_HOME/jobscripts/heal.sh"

stop() {
  printf 'job %s: %s\n' "${SLURM_JOB_ID:-}" "$*" >&2
  exit 1
}

# prepare VARIABLE...: reads the site file and checks that each variable then names a program.
prepare() {
  local site=${HALOGRAD_SITE:-$HALOGRAD_HOME/jobscripts/site/default.sh} variable end
  [[ -r $site ]] || stop "there is no site file $site (HALOGRAD_SITE names it)"
  # shellcheck source=jobscripts/site/default.sh
  . "$site"
  for variable in "$@"; do
    command -v "${!variable}" >/dev/null ||
      stop "there is no program ${!variable}: build it before submitting, or name yours in $variable"
  done
  # Options of srun, by its environment; other launchers ignore them.
  export SRUN_CPUS_PER_TASK=${SLURM_CPUS_PER_TASK:-1} # since Slurm 22.05 srun does not take it from sbatch
  export SLURM_CPU_BIND=${SLURM_CPU_BIND:-cores}      # every rank has cores of its own
  # Ranks end one after the other with status 75, for which the rest must not be killed; after a crash SLURM_WAIT ends
  # them.
  export SLURM_KILL_BAD_EXIT=0 SLURM_WAIT=${SLURM_WAIT:-60}
  # halograd saves before the job's end without any signal if it knows when that is. Newer versions of Slurm set it.
  if [[ -z ${SLURM_JOB_END_TIME:-} ]]; then
    end=$(squeue --noheader --jobs="$(slurm_job)" --format=%e | head -n 1) || end=
    end=$(date --date="$end" +%s 2>/dev/null) && [[ -n $end ]] && export SLURM_JOB_END_TIME=$end
  fi
  printf 'job %s on %s, start %d: %s ranks, %s cores each%s\n' "$SLURM_JOB_ID" "$SLURM_JOB_NODELIST" \
    $((1 + ${SLURM_RESTART_COUNT:-0})) "$SLURM_NTASKS" "$SRUN_CPUS_PER_TASK" \
    "${SLURM_GPUS_ON_NODE:+, $SLURM_GPUS_ON_NODE GPUs on a node}"
}
