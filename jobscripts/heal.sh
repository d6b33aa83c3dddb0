# shellcheck shell=bash
# heal COMMAND... runs COMMAND, which starts the ranks of a training in a Slurm job, until the training is done, and ends
# the script. After any end but an error of the user's, the training is started again from its newest checkpoint: on the
# nodes that are left, or by the queue. The table in docs/slurm.md says what becomes of which end. These may be set:
#   HALOGRAD_MOST_ATTEMPTS   attempts from the same checkpoint (3)
#   HALOGRAD_MOST_STARTS     starts of the job from the queue (100)
#   HALOGRAD_MOST_DEATHS     attempts in which ranks may die on a node before it is left out (2)
#   HALOGRAD_SPARE_NODES     nodes of the job that are kept until others have failed (0)
#
# What has happened so far is a line each in a file of notes, which outlasts a start of the job:
#   running, finished, checkpoint STEP, died RANK NODE, error     by halograd (lib/support/job_notes.hpp)
#   start, failed, stopped, lost NODE, forgiven     by this script

# The number of this job: in an array its task's, since that of the array's last job would mean the whole array.
slurm_job() { printf '%s' "${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}${SLURM_ARRAY_JOB_ID:+_$SLURM_ARRAY_TASK_ID}"; }
say() { printf 'job %s: %s\n' "$SLURM_JOB_ID" "$*"; }
note() { printf '%s\n' "$*" >>"$notes"; }
joined() { (IFS=, && printf '%s' "$*"); }
is_bad() { [[ " ${bad[*]} " == *" $1 "* ]]; }

# Sets step (of the newest checkpoint), failures (attempts from it that have failed); of the last attempt refused (1:
# halograd itself has found an error), unfinished (1: it was running, and did not say that nothing is left to do), dead
# ("rank 1 on node7, ...") and suspects (their nodes); and bad (nodes that have failed too often, or do not answer).
read_notes() {
  local lines
  mapfile -t lines < <(awk -v deaths="${HALOGRAD_MOST_DEATHS:-2}" '
    $1 == "start"      { open = 1; refused = unfinished = 0; dead = suspects = ""; split("", here) }
    $1 == "checkpoint" { if ($2 + 0 > step) { step = $2 + 0; failures = 0 } }
    $1 == "died"       { if (!(($2, $3) in here)) dead = dead (dead == "" ? "" : ", ") "rank " $2 " on " $3
                         if (!($3 in here)) { ++times[$3]; suspects = suspects " " $3 }
                         here[$2, $3] = here[$3] = 1 }
    $1 == "error"      { if (dead == "") refused = 1 }  # else a consequence
    $1 == "running"    { unfinished = 1 }
    $1 == "finished"   { unfinished = 0 }
    $1 == "failed"     { failures += open; open = 0 }
    $1 == "stopped"    { open = 0 }
    $1 == "lost"       { times[$2] = deaths }
    $1 == "forgiven"   { split("", times) }
    END { for (node in times) if (times[node] >= deaths) bad = bad " " node
          printf "%d\n%d\n%d\n%d\n%s\n%s\n%s\n", step, failures, refused, unfinished, dead, suspects, bad }' "$notes")
  step=${lines[0]} failures=${lines[1]} refused=${lines[2]} unfinished=${lines[3]} dead=${lines[4]}
  read -r -a suspects <<<"${lines[5]}"
  read -r -a bad <<<"${lines[6]}"
  # The components of a heterogeneous job have nodes of their own kinds: it runs on all of them.
  [[ -z ${SLURM_HET_SIZE:-} ]] || suspects=() bad=()
}

# asked_for FIELD: a list of nodes that the job was submitted with, ReqNodeList or ExcNodeList; empty: none.
asked_for() { scontrol show job --oneliner "$(slurm_job)" | sed -n "1 s/.* $1=\([^( ]*\).*/\1/p"; }

# Whether the partition has as many nodes as the job needs without the bad ones and those that the user does not want.
others_suffice() {
  local node good=0 list states=idle,mixed,allocated,completing unwanted=
  [[ -z $(asked_for ReqNodeList) ]] || return 1
  list=$(asked_for ExcNodeList)
  [[ -z $list ]] || unwanted=$(scontrol show hostnames "$list")
  for node in $(sinfo --noheader --Node --responding --states=$states --partition="$SLURM_JOB_PARTITION" --format=%N | sort -u); do
    is_bad "$node" || grep -qxF "$node" <<<"$unwanted" || ((++good))
  done
  ((good >= SLURM_JOB_NUM_NODES))
}

# Sets nodes, those of the job on which the next attempt runs, and how many ranks that is. One that is down has left the
# job (--no-kill).
choose_nodes() {
  local all node list
  list=$(squeue --noheader --jobs="$(slurm_job)" --format=%N) && [[ -n $list ]] || list=$SLURM_JOB_NODELIST
  mapfile -t all < <(scontrol show hostnames "$list")
  nodes=()
  for node in "${all[@]}"; do is_bad "$node" || nodes+=("$node"); done
  if ((${#nodes[@]} == 0)) && ! others_suffice; then
    say "${bad[*]}: failed too often, but the partition has too few other nodes"
    note forgiven
    nodes=("${all[@]}")
  fi
  nodes=("${nodes[@]:0:SLURM_JOB_NUM_NODES - spare}")
  ranks=${SLURM_NTASKS:-all}
  ((${#nodes[@]} == SLURM_JOB_NUM_NODES)) || ranks=$((${#nodes[@]} * per_node))
}

# Slurm sends SIGTERM to the script and the ranks when the job is cancelled, and when its time is over: then it is put back
# into the queue at once, while the ranks may still save, since SIGKILL follows.
terminated() {
  trap - TERM
  [[ $(scontrol show job --oneliner "$(slurm_job)") == *" Reason=TimeLimit "* ]] || kill -TERM $$
  queue_again "its time is over"
  queued=1
}

# Runs a command that starts the ranks. Where these do not get all of the job's nodes, launchers learn it by variables.
on_nodes() {
  if ((${#nodes[@]} < SLURM_JOB_NUM_NODES)); then
    local node rank list
    list=$(joined "${nodes[@]}")
    local -x SLURM_NTASKS=$ranks SLURM_NPROCS=$ranks SLURM_NNODES=${#nodes[@]} SLURM_JOB_NUM_NODES=${#nodes[@]}
    local -x SLURM_NODELIST=$list SLURM_JOB_NODELIST=$list SLURM_TASKS_PER_NODE="$per_node(x${#nodes[@]})" # of mpiexec
    local -x SLURM_DISTRIBUTION=arbitrary SLURM_HOSTFILE=$notes.ranks # of srun: a line for each rank
    for node in "${nodes[@]}"; do
      for ((rank = 0; rank < per_node; ++rank)); do printf '%s\n' "$node"; done
    done >"$SLURM_HOSTFILE"
  fi
  # What is left of the attempt before, on a node that is gone, may still hold its part of the others.
  ((failures == 0)) || local -x SLURM_OVERLAP=1
  local ended=0
  "$@" & # a trap waits for commands in the foreground
  wait $! || ended=$?
  if ((queued)); then
    ended=0
    wait $! || ended=$?
  fi
  return $ended
}

# A node on which a rank has died is asked whether it still starts anything.
ask_suspects() {
  local node
  for node in "${suspects[@]}"; do
    timeout 60 srun --mpi=none --overlap --nodes=1 --ntasks=1 --nodelist="$node" true && continue
    say "$node does not answer"
    note "lost $node"
  done
}

# give_up STATUS WHY, for good
give_up() {
  rm -f "$notes" "$notes.ranks"
  (($1 == 0)) || say "$2" >&2
  exit "$1"
}

# queue_again WHY: puts the same job back into the queue, for other nodes than the bad ones.
queue_again() {
  local job starts=$((1 + ${SLURM_RESTART_COUNT:-0})) most=${HALOGRAD_MOST_STARTS:-100} list=
  ((starts < most)) || give_up 1 "$1, but started $starts times by now: HALOGRAD_MOST_STARTS is $most"
  job=$(slurm_job)
  printf 'job %s: %s, back into the queue\n' "$job" "$1"
  if ((${#bad[@]} > 0)); then
    if others_suffice; then
      list=$(joined "${bad[@]}" "$(asked_for ExcNodeList)")
    else
      note forgiven # the queue may give them again
    fi
  fi
  trap '' TERM # Slurm ends this script now, but takes the bad nodes only of a job that is queued again
  scontrol requeue "$job"
  [[ -z $list ]] || { scontrol update "JobId=$job" "ExcNodeList=${list%,}" && say "not on ${bad[*]} again"; }
}

requeue() {
  queue_again "$1"
  exit 75
}

heal() {
  local notes=$PWD/.halograd-job-$SLURM_JOB_ID most=${HALOGRAD_MOST_ATTEMPTS:-3} per_node=${SLURM_NTASKS_PER_NODE:-1}
  local spare=${HALOGRAD_SPARE_NODES:-0} step failures refused unfinished dead suspects bad nodes ranks queued=0 status=1
  export HALOGRAD_JOB_NOTES=$notes
  [[ -z ${SLURM_HET_SIZE:-} ]] || spare=0 # as read_notes
  ((spare < SLURM_JOB_NUM_NODES)) || give_up 1 "HALOGRAD_SPARE_NODES is $spare, but the job has $SLURM_JOB_NUM_NODES nodes"
  ((${SLURM_RESTART_COUNT:-0} > 0)) || rm -f "$notes"
  note failed # where the attempt before was cut short with its node, or by its time limit
  trap terminated TERM
  for (( ; ; )); do
    ((queued == 0)) || exit 75
    read_notes
    ((failures < most)) || give_up "$status" "$failures attempts from step $step have failed: HALOGRAD_MOST_ATTEMPTS is $most"
    choose_nodes
    ((${#nodes[@]} > 0)) || requeue "no node is left"
    ((failures == 0 && ${#nodes[@]} == SLURM_JOB_NUM_NODES)) ||
      say "attempt $((failures + 1)) of $most from step $step: $ranks ranks on ${#nodes[@]} of $SLURM_JOB_NUM_NODES nodes"
    note start
    status=0
    on_nodes "$@" || status=$?
    read_notes
    if ((queued)); then
      [[ $status != 75 || -n $dead ]] || note stopped
      exit 75
    fi
    ((status != 0 || unfinished)) || give_up 0
    ((refused == 0 || failures > 0)) || give_up "$status" "halograd's own error (above), which would come again"
    if [[ $status == 75 && -z $dead ]]; then
      note stopped
      requeue "saved for later"
    fi
    say "${dead:-no rank is known to have} died; the launcher ended with status $status"
    note failed
    ((status != 0)) || status=1 # not of a job that has failed
    ask_suspects
    read_notes
    # What fails twice in a row may need other nodes, all of them, or time.
    ((failures < 2 || failures >= most)) || requeue "failed twice from step $step"
  done
}
