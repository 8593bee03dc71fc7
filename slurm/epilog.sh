#!/usr/bin/env bash
# Slurm EpilogSlurmctld: the latest runs as metrics, after every job.   slurm.conf: EpilogSlurmctld=/path/to/epilog.sh
#
# Runs on the controller as SlurmUser, who must be able to read the runs and to write the textfile folder of that
# host's node exporter. Never fails a job: what goes wrong is one line in slurmctld's log. Settings (environment, or
# here): CLUSTERLAB_RUNS  CLUSTERLAB (the command)  TEXTFILES (the folder)  LAST (how many runs)
set -uo pipefail

CLUSTERLAB_RUNS=${CLUSTERLAB_RUNS:-/shared/clusterlab/runs}
CLUSTERLAB=${CLUSTERLAB:-clusterlab}
TEXTFILES=${TEXTFILES:-/var/lib/prometheus/node-exporter}
LAST=${LAST:-50}
export CLUSTERLAB_RUNS

said=$(timeout 120 "$CLUSTERLAB" export prom --last "$LAST" --out "$TEXTFILES" \
  ${SLURM_CLUSTER_NAME:+--cluster "$SLURM_CLUSTER_NAME"} 2>&1)
rc=$?
[ "$rc" -eq 0 ] || echo "epilog: clusterlab export prom ended with $rc: ${said##*$'\n'}" >&2
exit 0
