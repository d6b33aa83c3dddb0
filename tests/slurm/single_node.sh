#!/usr/bin/env bash
# A real Slurm on this machine alone, for the tests: munged, slurmctld and a slurmd per node, as root, without an init system,
# cgroups, a database or name service. Nothing outside FOLDER is written, nothing of the machine's own Slurm is read.
#
# Usage: single_node.sh start FOLDER     returns when all nodes are idle; then: export SLURM_CONF=FOLDER/slurm.conf
#        single_node.sh status FOLDER    exit status 0 when all daemons run and the controller answers, 3 otherwise
#        single_node.sh stop FOLDER      ends its jobs and the daemons that start started, and only those
#
# HALOGRAD_SLURM_SECONDS (1800): the daemons end by themselves after that long. HALOGRAD_SLURM_CPUS (8) and
# HALOGRAD_SLURM_GPUS (2): what each node claims to have; the GPUs are links to /dev/null, and CPUs are not bound.
# HALOGRAD_SLURM_NODES (2): every component of a heterogeneous job gets nodes of its own.
# Exit status 77 where Slurm cannot run: not root, or packages missing (jobscripts/setup-debian.sh --tests has them).
set -euo pipefail

cannot_run=77
seconds=${HALOGRAD_SLURM_SECONDS:-1800}
nodes=${HALOGRAD_SLURM_NODES:-2}
cpus=${HALOGRAD_SLURM_CPUS:-8}
gpus=${HALOGRAD_SLURM_GPUS:-2}

die() {
  printf 'single_node: %s\n' "$2" >&2
  exit "$1"
}

program() {
  printf '/usr/sbin/%s' "${1%[0-9]}"
}

# The process that start started: still there, and with this folder on its command line.
running() {
  local pid
  pid=$(cat "$folder/run/$1.pid" 2>/dev/null) || return 1
  tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -qF "$(program "$1") " &&
    tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -qF "$folder/"
}

# wait_until SECONDS WHAT COMMAND...
wait_until() {
  local end=$((SECONDS + $1)) what=$2
  shift 2
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < end)) || die 1 "waited in vain for $what; see $folder/log"
    sleep 0.2
  done
}

# launch NAME ARGUMENT...: in the background, for at most $seconds seconds. Slurm finds itself by the host's name: where
# that is not this machine's loopback address, the daemons and their jobs run under the name localhost.
launch() {
  local name=$1 rename=()
  shift
  if ! is_loopback "$(uname -n)"; then
    # shellcheck disable=SC2016
    rename=(unshare --uts -- sh -c 'hostname localhost && exec "$@"' sh)
  fi
  setsid "${rename[@]}" timeout --kill-after=10 "$seconds" "$(program "$name")" "$@" \
    </dev/null >"$folder/log/$name.out" 2>&1 &
  printf '%s\n' $! >"$folder/run/$name.pid"
}

is_loopback() {
  [[ $(getent ahostsv4 "$1" | awk '{print $1}' | sort -u) == 127.0.0.1 ]]
}

own_name() {
  local name
  name=$(uname -n)
  if is_loopback "$name"; then printf '%s' "${name%%.*}"; else printf 'localhost'; fi
}

port_taken() {
  (: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

# The first of free ports in a row, one for the controller and one per node.
free_ports() {
  local port attempt next
  for attempt in {1..50}; do
    port=$((20000 + RANDOM % 10000))
    for ((next = 0; next <= nodes; ++next)); do ! port_taken $((port + next)) || continue 2; done
    printf '%s' "$port"
    return
  done
  die 1 "no free ports after $attempt attempts"
}

write_configuration() {
  local host port memory node
  host=$(own_name)
  port=$(free_ports)
  memory=$(awk '/^MemTotal:/ {print int($2 / 1024)}' /proc/meminfo)
  cat "$(dirname "${BASH_SOURCE[0]}")/common.conf" - >"$folder/slurm.conf" <<END
ClusterName=halograd
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
# A requeued job waits until its old credential has expired.
AuthInfo=socket=$folder/munge.socket,cred_expire=5
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool/%n
# All nodes on one machine: what Slurm's PMIx plugin writes for a step must not meet.
TmpFS=$folder/tmp/%n
SlurmctldPidFile=$folder/state/slurmctld.pid
SlurmdPidFile=$folder/spool/%n.pid
SlurmctldLogFile=$folder/log/slurmctld.log
SlurmdLogFile=$folder/log/%n.log
# Heterogeneous jobs are started by the backfill scheduler alone: let it look often.
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=1,sched_interval=2,bf_interval=1,bf_hetjob_immediate
KillWait=10
MinJobAge=1800
GresTypes=gpu
END
  for ((node = 1; node <= nodes; ++node)); do
    printf 'NodeName=node%d NodeHostname=%s NodeAddr=127.0.0.1 Port=%d CPUs=%d RealMemory=%d Gres=gpu:%d\n' \
      $node "$host" $((port + node)) "$cpus" "$memory" "$gpus"
  done >>"$folder/slurm.conf"
  printf 'PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n' >>"$folder/slurm.conf"
  printf 'NodeName=node[1-%d] Name=gpu Flags=nvidia_gpu_env,amd_gpu_env File=%s/gpu[0-%d]\n' \
    "$nodes" "$folder" $((gpus - 1)) >"$folder/gres.conf"
  local gpu
  for ((gpu = 0; gpu < gpus; ++gpu)); do ln -sfn /dev/null "$folder/gpu$gpu"; done
}

require_slurm() {
  ((EUID == 0)) || die $cannot_run "Slurm's daemons need root"
  local tool
  for tool in /usr/sbin/{munged,mungekey,slurmctld,slurmd} /usr/bin/{sbatch,srun,scontrol}; do
    [[ -x $tool ]] || die $cannot_run "there is no $tool: install munge, slurmctld, slurmd and slurm-client"
  done
}

munge_answers() { timeout 5 munge -n -S "$folder/munge.socket" | timeout 5 unmunge -S "$folder/munge.socket"; }
controller_answers() { timeout 5 scontrol ping | grep -q 'is UP'; }
nodes_idle() { [[ $(timeout 5 sinfo -h -N -o %T | grep -cx idle) == "$nodes" ]]; }

start() {
  require_slurm
  ! running slurmctld || die 1 "runs already in $folder"
  mkdir -p "$folder"/{run,log,state,spool}
  chmod 755 "$folder" "$folder"/{run,log,state,spool}
  [[ -s $folder/munge.key ]] || /usr/sbin/mungekey --create --keyfile="$folder/munge.key"
  write_configuration
  trap 'stop >&2' EXIT
  launch munged --foreground --num-threads=2 --key-file="$folder/munge.key" --socket="$folder/munge.socket" \
    --pid-file="$folder/run/munge" --seed-file="$folder/run/seed" --log-file="$folder/log/munge.log"
  wait_until 20 "munged" munge_answers
  launch slurmctld -D -f "$folder/slurm.conf"
  wait_until 30 "slurmctld" controller_answers
  local node
  for ((node = 1; node <= nodes; ++node)); do
    mkdir -p "$folder/tmp/node$node"
    launch "slurmd$node" -D -N "node$node" -f "$folder/slurm.conf"
  done
  wait_until 60 "the nodes" nodes_idle
  trap - EXIT
  printf 'export SLURM_CONF=%s\n' "$SLURM_CONF"
}

jobs_of_cluster() { timeout 5 squeue -h -o %A; }
no_jobs() { [[ -z $(jobs_of_cluster) ]]; }

end_jobs() {
  local jobs end=$((SECONDS + 30))
  mapfile -t jobs < <(jobs_of_cluster)
  ((${#jobs[@]} > 0)) || return 0
  timeout 10 scancel "${jobs[@]}" || true
  until no_jobs || ((SECONDS >= end)); do sleep 0.2; done
}

stop() {
  local i name pid end
  ! { running slurmctld && controller_answers; } || end_jobs
  for ((i = ${#daemons[@]} - 1; i >= 0; --i)); do
    name=${daemons[i]}
    if running "$name"; then
      pid=$(cat "$folder/run/$name.pid")
      end=$((SECONDS + 15))
      kill "$pid" 2>/dev/null || true # timeout passes it on
      while running "$name" && ((SECONDS < end)); do sleep 0.1; done
      ! running "$name" || die 1 "$name does not end: process $pid"
    fi
    rm -f "$folder/run/$name.pid"
  done
}

status() {
  local name code=0
  for name in "${daemons[@]}"; do
    if running "$name"; then
      printf '%s: process %s\n' "$name" "$(cat "$folder/run/$name.pid")"
    else
      printf '%s: not running\n' "$name"
      code=3
    fi
  done
  ((code == 0)) && controller_answers || exit 3
  timeout 5 sinfo -N -l
  timeout 5 squeue
}

case ${1:-} in
  start | stop | status) [[ $# == 2 ]] || die 2 "a folder, please: single_node.sh $1 FOLDER" ;;
  *) die 2 "start, stop or status, and a folder" ;;
esac
# A socket's path has 107 characters at most.
[[ $2 =~ ^/[A-Za-z0-9._/-]{1,80}$ ]] || die 2 "the folder is an absolute path of at most 80 of A-Za-z0-9._/-, not $2"
folder=$2
export SLURM_CONF=$folder/slurm.conf
[[ $1 == start || ! -r $SLURM_CONF ]] || nodes=$(grep -c '^NodeName=' "$SLURM_CONF")
daemons=(munged slurmctld) # in the order of starting
for ((node = 1; node <= nodes; ++node)); do daemons+=("slurmd$node"); done
"$1"
