#!/usr/bin/env bash
# Slurm Prolog: refuse a node whose GPUs do not answer.   slurm.conf: Prolog=/path/to/prolog.sh
#
# Runs as root before a job's first step on a node. A non-zero exit drains the node with this script's
# last line as a hint in slurmd's log, and requeues the job: better than ranks that hang in NCCL init.
# Jobs without GPUs pass. GPU_QUERY_TIMEOUT (seconds, default 20): a hung driver never answers.
set -uo pipefail

gpus=${SLURM_JOB_GPUS:-${CUDA_VISIBLE_DEVICES:-}}
[ -n "$gpus" ] || exit 0

refuse() {
  echo "prolog: node ${SLURMD_NODENAME:-$(uname -n)} refused: $*" >&2
  exit 1
}

command -v nvidia-smi >/dev/null || refuse "no nvidia-smi, but the job holds GPUs $gpus"
answer=$(timeout "${GPU_QUERY_TIMEOUT:-20}" nvidia-smi \
  --query-gpu=index,pci.bus_id,ecc.errors.uncorrected.volatile.total --format=csv,noheader,nounits 2>&1)
rc=$?
[ "$rc" -ne 124 ] || refuse "nvidia-smi did not answer in ${GPU_QUERY_TIMEOUT:-20} s"
[ "$rc" -eq 0 ] || refuse "nvidia-smi failed ($rc): ${answer%%$'\n'*}"

IFS=, read -ra wanted <<<"$gpus"
for index in "${wanted[@]}"; do
  [[ $index =~ ^[0-9]+$ ]] || continue # MIG and UUID names: that all GPUs answered is enough
  line=$(grep -E "^ *$index *," <<<"$answer") || refuse "GPU $index does not answer"
  errors=${line##*,}
  errors=${errors// /}
  [[ ! $errors =~ ^[0-9]+$ ]] || [ "$errors" -eq 0 ] ||
    refuse "GPU $index (${line#*, }) has $errors uncorrected ECC errors since boot"
done
