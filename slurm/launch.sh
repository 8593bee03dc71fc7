#!/usr/bin/env bash
# Start one rank:  srun --mpi=pmix … slurm/launch.sh [--tag=both|stdout|stderr|none] COMMAND ARG…
#
# For the task it runs in, it finds the GPU, binds the CPUs next to it, names the NIC, sets
# OMP_NUM_THREADS, and runs COMMAND with each line of its output tagged with rank, host and GPU; signals
# and exit code are COMMAND's. What the user or Slurm set already stays. CUDA_VISIBLE_DEVICES is never
# touched: ranks that see all GPUs of the node keep NVLink peer access and pick theirs by local rank.
# `clusterlab exec` does all that; where there is no clusterlab, this file binds, and nothing is tagged.
#
#   CLUSTERLAB=/path/to/clusterlab    default: the one on PATH
#   CLUSTERLAB_NICS=mlx5_0,mlx5_3,…   NIC of local rank 0, 1, … (default: NCCL chooses the nearest)
#   CLUSTERLAB_CPU_BIND=none          leave the CPUs alone
#   CLUSTERLAB_LAUNCH_VERBOSE=1       say what was decided
set -uo pipefail

tag=both
case ${1-} in --tag=*) tag=${1#--tag=} && shift ;; esac
if [ $# -eq 0 ]; then
  echo "usage: srun … $0 [--tag=both|stdout|stderr|none] COMMAND [ARG…]" >&2
  exit 2
fi

clusterlab=$(command -v "${CLUSTERLAB:-clusterlab}")
if [ -n "$clusterlab" ]; then
  exec "$clusterlab" exec --tag="$tag" ${CLUSTERLAB_LAUNCH_VERBOSE:+--verbose} -- "$@"
fi

rank=${PMIX_RANK:-${SLURM_PROCID:-${OMPI_COMM_WORLD_RANK:-0}}}
local_rank=${SLURM_LOCALID:-${OMPI_COMM_WORLD_LOCAL_RANK:-0}}
host=${SLURMD_NODENAME:-$(uname -n)}
local_size=${SLURM_STEP_TASKS_PER_NODE:-${OMPI_COMM_WORLD_LOCAL_SIZE:-1}}
local_size=${local_size%%[(,]*} # "8(x2)" and "8,7" both start with this node's count, near enough

# The driver lists GPUs here by PCI bus id, the order of CUDA under PCI_BUS_ID. No NVML, no context.
gpu_bus_id() {
  local gpus=/proc/driver/nvidia/gpus mask=${CUDA_VISIBLE_DEVICES-unset} entries entry
  [ -d "$gpus" ] || return 1
  if [ "$mask" = unset ]; then
    entry=$local_rank
  else
    IFS=, read -ra entries <<<"$mask"
    [ "${#entries[@]}" -gt 0 ] || return 1
    entry=${entries[$((${#entries[@]} == 1 ? 0 : local_rank))]-}
  fi
  case $entry in
    GPU-*) grep -ls "$entry" "$gpus"/*/information | head -1 | xargs -r dirname | xargs -r basename ;;
    '' | *[!0-9]*) return 1 ;;
    *) find "$gpus" -mindepth 1 -maxdepth 1 -printf '%f\n' | sort | sed -n "$((entry + 1))p" ;;
  esac
}

export CUDA_DEVICE_ORDER=${CUDA_DEVICE_ORDER:-PCI_BUS_ID}
bus_id=$(gpu_bus_id) || bus_id=

# CPUs: only where Slurm left the task on all of them, so that a --cpu-bind wins.
cpus=
if [ -n "$bus_id" ] && [ "${CLUSTERLAB_CPU_BIND:-gpu}" != none ]; then
  near=/sys/bus/pci/devices/${bus_id,,}/local_cpulist
  if [ -r "$near" ] && [ "$(nproc)" = "$(nproc --all)" ] && [ "$(cat "$near")" ]; then
    cpus=$(cat "$near")
    taskset -cp "$cpus" $$ >/dev/null 2>&1 || cpus=
  fi
fi

nic=
if [ -n "${CLUSTERLAB_NICS:-}" ]; then
  IFS=, read -ra nics <<<"$CLUSTERLAB_NICS"
  nic=${nics[$local_rank]-}
  if [ -z "$nic" ]; then
    echo "$0: CLUSTERLAB_NICS names ${#nics[@]} NICs, local rank $local_rank has none" >&2
    exit 2
  fi
  export NCCL_IB_HCA==$nic # '=': this very name, not a prefix (mlx5_1 would match mlx5_10)
fi

if [ -z "${OMP_NUM_THREADS:-}" ]; then
  # Tasks that share a CPU set share it evenly; tasks with cores of their own keep them all.
  threads=$(nproc)
  if [ "$threads" = "$(nproc --all)" ] || [ -n "$cpus" ]; then threads=$((threads / local_size)); fi
  export OMP_NUM_THREADS=$((threads > 0 ? threads : 1))
fi

export CLUSTERLAB_LOG_TAG="rank $rank $host${bus_id:+ gpu $bus_id}"
if [ -n "${CLUSTERLAB_LAUNCH_VERBOSE:-}" ]; then
  echo "[$CLUSTERLAB_LOG_TAG] cpus ${cpus:-as given} nic ${nic:-chosen by NCCL} OMP_NUM_THREADS=$OMP_NUM_THREADS" >&2
fi
exec "$@"
