# Sourced by jobs/*.sbatch:  run_step srun OPTION… COMMAND…
#
# Runs one job step and returns a code that says what happened: the step's own; 4 when a rank or a node
# died; 128+n when the job itself was told to stop (scancel, a time limit). A job that lost a node is
# requeued, and goes on with the rows it has.

run_step() {
  local step rc stopped=
  "$@" &
  step=$!
  trap 'stopped=1; kill -TERM "$step"' TERM # the ranks keep what they have
  wait "$step"
  rc=$?
  while [ "$rc" -gt 128 ] && kill -0 "$step" 2>/dev/null; do # `wait` ended by the signal, not by the step
    wait "$step"
    rc=$?
  done
  [ -z "$stopped" ] || return "$rc"
  # srun reports the signal by which it ended the others when a rank died.
  [ "$rc" -le 128 ] || rc=4
  # srun has been seen to return 0 for a step that was aborted before its tasks ran.
  if [ "$rc" -eq 0 ] && [ -n "${CLUSTERLAB:-}" ] && [ -n "${CLUSTERLAB_RUN_DIR:-}" ]; then
    "$CLUSTERLAB" runs ended "$CLUSTERLAB_RUN_DIR" >&2
    rc=$?
  fi
  if [ "$rc" -eq 4 ] && ! every_node_answers; then
    echo "$0: a node of this job does not answer: requeueing" >&2
    scontrol requeue "$SLURM_JOB_ID" && sleep 600 # until Slurm ends this attempt
  fi
  return "$rc"
}

# What the code of an srun says of its ranks: 4 where it is the signal by which srun ended one.
step_code() {
  [ "$1" -le 128 ] || return 4
  return "$1"
}

every_node_answers() {
  timeout 30 srun --overlap --ntasks-per-node=1 --nodes="$SLURM_NNODES" --ntasks="$SLURM_NNODES" true
}
