"""What error texts mean, as data: pattern, code, fix and where the text comes from.

A text names a symptom; the code is the likeliest cause behind it where nothing but the log is known.
Patterns are searched per line, without regard to case. ``{0}``, ``{1}`` … in a fix stand for the groups.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from clusterlab.core.findings import Severity


@dataclass(frozen=True, slots=True)
class LogPattern:
    """One kind of error text. ``least``: how many lines must have it before it means anything."""

    name: str
    code: str
    text: str
    fix: str
    source: str
    least: int = 1
    severity: Severity | None = None
    vague: bool = False  # a symptom of many causes: tells nothing where a cause is known
    regex: re.Pattern[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "regex", re.compile(self.text, re.IGNORECASE))


_TORCH_STORE = "pytorch torch/csrc/distributed/c10d/socket.cpp"
_NCCL_SOCKET = "NVIDIA/nccl src/misc/socket.cc"
_SELECT = 'import os, torch; torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))'
_DUPLICATE_FIX = (
    f"{_SELECT}\n# before the first collective, with all GPUs of the node visible to each rank"
)
_SEE = "srun clusterlab doctor\n# with the job's own options: what each rank really got"
_ONE_MASK = (
    "keep one mask only, ROCR_VISIBLE_DEVICES (unset HIP_VISIBLE_DEVICES CUDA_VISIBLE_DEVICES)"
)

PATTERNS: tuple[LogPattern, ...] = (
    LogPattern(
        "hip_ordinal",
        "CVD_LOCAL_RANK_MISMATCH",
        r"HIP error: invalid device ordinal|hipErrorInvalidDevice",
        f"{_SEE}; give every rank all GPUs of the node (srun --gpus-per-node=N without --gpus-per-task), or"
        f" select ordinal 0 where each sees another GPU; {_ONE_MASK}",
        "ROCm/clr hipamd/src/hip_error.cpp",
        vague=True,
    ),
    LogPattern(
        "cuda_ordinal",
        "CVD_LOCAL_RANK_MISMATCH",
        r"(?<!HIP error: )invalid device ordinal|CUDA_ERROR_INVALID_DEVICE\b|cudaErrorInvalidDevice\b",
        f"{_SEE}; if all ranks have one mask of one GPU, it is inherited: unset CUDA_VISIBLE_DEVICES before"
        " launching; if each sees another GPU, select ordinal 0; else give every rank all GPUs of the node"
        " (srun --gpus-per-node=N without --gpus-per-task)",
        "CUDA driver API, cuda.h: CUDA_ERROR_INVALID_DEVICE (101)",
        vague=True,
    ),
    LogPattern(
        "device_busy",
        "GPU_SHARED_BY_RANKS",
        r"CUDA-capable device\(s\) is/are busy or unavailable|cudaErrorDevicesUnavailable"
        r"|CUDA_ERROR_DEVICE_UNAVAILABLE",
        "nvidia-smi --query-gpu=index,compute_mode --format=csv\n# in mode Exclusive_Process a second process"
        " on the GPU is refused: one rank per GPU; or a process was left over there (nvidia-smi)",
        "CUDA runtime, driver_types.h: cudaErrorDevicesUnavailable (46)",
        vague=True,
    ),
    LogPattern(
        "slurm_memory",
        "RANK_MISSING",
        r"oom[_-]kill|OUT_OF_MEMORY|(?:slurmstepd|srun): error: .*Out Of Memory",
        "sacct -j $SLURM_JOB_ID --format=JobID,State,MaxRSS,ReqMem\n# the kernel killed tasks at the job's"
        " limit of host memory: ask for more (--mem, --mem-per-cpu), or use less per rank",
        "SchedMD/slurm src/plugins/task/cgroup; src/srun",
    ),
    LogPattern(
        "slurm_time",
        "RANK_MISSING",
        r"CANCELLED AT \S+ DUE TO TIME LIMIT|DUE TO TIME LIMIT",
        "sacct -j $SLURM_JOB_ID --format=JobID,State,Elapsed,Timelimit\n# the job ran out of time: ask"
        " for more"
        " (--time), or look above for what made it hang",
        "SchedMD/slurm src/slurmd/slurmstepd/req.c",
    ),
    LogPattern(
        "no_hip_device",
        "CVD_EMPTY",
        r"no ROCm-capable device is detected|No HIP GPUs are available|hipErrorNoDevice",
        f"{_SEE}; {_ONE_MASK}, and none that is empty; in containers --device=/dev/kfd --device=/dev/dri",
        "torch/cuda/__init__.py; ROCm/clr hipamd/src/hip_error.cpp",
        vague=True,
    ),
    LogPattern(
        "no_device",
        "CVD_EMPTY",
        r"no CUDA-capable device is detected|CUDA_ERROR_NO_DEVICE\b|No CUDA GPUs are available",
        f"{_SEE}; unset CUDA_VISIBLE_DEVICES where it is empty, list devices that"
        " exist; in containers they count from 0",
        "CUDA driver API, cuda.h: CUDA_ERROR_NO_DEVICE (100); torch/cuda/__init__.py; ROCm/clr",
        vague=True,
    ),
    LogPattern(
        "nccl_duplicate",
        "GPU_SHARED_BY_RANKS",
        r"Duplicate GPU detected ?: rank (\d+) and rank (\d+) both on (?:CUDA|HIP|GPU) ?device (\w+)",
        _DUPLICATE_FIX,
        "NVIDIA/nccl src/init.cc (fillInfo checks); ROCm/rccl src/init.cc",
    ),
    LogPattern(
        "nccl_invalid_usage_duplicate",
        "GPU_SHARED_BY_RANKS",
        r"Duplicate GPU detected(?! ?:)|ncclInvalidUsage.*duplicate",
        _DUPLICATE_FIX,
        "pytorch ProcessGroupNCCL.cpp, ncclInvalidUsage",
    ),
    LogPattern(
        "barrier_guess",
        "DEVICE_NOT_SET",
        r"Guessing device ID based on global rank|devices used by this process are currently unknown"
        r"|No device id is provided via `?init_process_group`?",
        f"{_SELECT}\n# then dist.init_process_group(device_id=torch.device('cuda', local_rank))",
        "pytorch torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp, barrier()",
        severity=Severity.WARNING,
        vague=True,
    ),
    LogPattern(
        "uuid_int",
        "CVD_UUID_UNPARSED",
        r"invalid literal for int\(\) with base 10: ['\"]?(GPU|MIG)-",
        "nvidia-smi --query-gpu=index,uuid --format=csv\n# hand the program indices; or treat the mask's"
        " entries as text and use CUDA's ordinals",
        "Python int() on CUDA_VISIBLE_DEVICES (vllm-project/vllm, dask-cuda, …)",
    ),
    LogPattern(
        "counts_int",
        "SLURM_VAR_FORMAT",
        r"(?:invalid literal for int\(\) with base 10|Unsupported nproc_per_node value)"
        r"[^\n]{0,20}?\d+(?:\(x\d+\)|,\d)",
        "torchrun --nproc_per_node=$SLURM_GPUS_ON_NODE SCRIPT\n# 4(x2) means 4 on each of 2 nodes:"
        " ${SLURM_STEP_TASKS_PER_NODE%%[(,]*}",
        "pytorch torch/distributed/run.py determine_local_world_size; Python int()",
    ),
    LogPattern(
        "gpu_bind_outside",
        "GPU_BIND_OUT_OF_ALLOC",
        r"Bind request gpu:\S* does not specify any devices within the allocation"
        r"|Invalid --gpu-bind= value specified|Not enough gpus to bind for gpus per task",
        "# --gpu-bind=map_gpu: ids from 0 within the job with ConstrainDevices, else the node's; one"
        " per local"
        " task; masks as 0x…",
        "SchedMD/slurm src/interfaces/gres.c (seen on 22.05.8)",
    ),
    LogPattern(
        "ipc",
        "IPC_ISOLATED",
        r"(cu|cuda|hip)IpcOpenMemHandle|Could not enable P2P between dev|pidfd is not supported"
        r"|ze_?MemOpenIpcHandle.*(fail|error)",
        "export SLURM_GRES_FLAGS=allow-task-sharing\n# Slurm 23.11.3 or later; before: --gpus-per-node=N"
        " without a per-task binding, and select by local rank",
        "NVIDIA/nccl src/transport/p2p.cc; Cray MPICH GTL; oneCCL",
    ),
    LogPattern(
        "pmix_library",
        "PMIX_COMPONENT",
        r"can ?not load PMIx library|Invalid MPI type 'pmix|libpmix\S*: cannot open shared object",
        "srun --mpi=list\n# shows what there is: install libpmix of the plugin's major version on all nodes",
        "SchedMD/slurm src/plugins/mpi/pmix/mpi_pmix.c, src/interfaces/mpi.c",
    ),
    LogPattern(
        "pmix_component",
        "PMIX_COMPONENT",
        r"requested component was not found|Framework: *(psec|gds|ptl|bfrops)|Component: *munge"
        r"|PMIX ERROR: |PMIX_ERR_(NOT_SUPPORTED|UNPACK)|PMIx server.*version",
        "export PMIX_MCA_psec=native PMIX_MCA_gds=hash\n# where the server allows it, or munge in the image:"
        " the same PMIx release and components on both sides",
        "openpmix/openpmix src/mca/base, help-pmix-mca-base.txt",
    ),
    LogPattern(
        "pmi_for_pmix",
        "PMI_MISMATCH",
        r"No PMIx server was reachable, but a PMI1/2 was detected"
        r"|OMPI was not built with SLURM'?s? PMI support|direct launched using \"?srun",
        "export SLURM_MPI_TYPE=pmix\n# as srun --mpi=pmix; srun --mpi=list shows what this Slurm has",
        "open-mpi/ompi ompi/mca/rte, opal help-schizo-base.txt; Open MPI 5 instance init",
    ),
    LogPattern(
        "pmix_for_pmi",
        "PMI_MISMATCH",
        r"PMI2_Init|PMI2_Job_GetId|\[unset\]: write_line error|PMI server not found"
        r"|unable to initialize PMI|mpi/pmi2: .*error",
        "export SLURM_MPI_TYPE=pmi2 I_MPI_PMI_LIBRARY=/usr/lib64/libpmi2.so\n# as srun --mpi=pmi2; the"
        " library"
        " is for Intel MPI",
        "pmodels/mpich src/pmi, src/util/mpir_pmi.c; SchedMD/slurm mpi/pmi2",
    ),
    LogPattern(
        "pmix_unreachable",
        "PMI_MISMATCH",
        r"OPAL ERROR: Unreachable in (?:file )?ext\w+_client\.c|PMIX_ERR_UNREACH|PMIx_Init failed.*-25",
        "export SLURM_MPI_TYPE=pmix\n# no PMIx server was there: as srun --mpi=pmix; in a container also pass"
        " PMIX_* and mount $PMIX_SERVER_TMPDIR",
        "open-mpi/ompi opal/mca/pmix/ext3x",
    ),
    LogPattern(
        "singletons",
        "RANK_SINGLETON",
        r"\brank:? *0 *(?:of|out of|/) *1\b|\bworld[_ ]size[:= ]+1\b.*\brank[:= ]+0\b|Process 0 of 1\b",
        "export SLURM_MPI_TYPE=pmix\n# as srun --mpi=pmix; or the mpirun of the MPI the program is linked to",
        "programs' own greeting, once per process",
        least=2,
    ),
    LogPattern(
        "local_rank_unknown",
        "LOCAL_RANK_UNDETECTED",
        r"unable to detect local (MPI )?rank|could not (detect|determine) (the )?local rank"
        r"|environment variable (RANK|LOCAL_RANK|WORLD_SIZE) expected, but not set|KeyError: '(LOCAL_)?RANK'",
        "export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS\n# in a wrapper of the"
        " task (mpirun: OMPI_COMM_WORLD_*; PALS: PALS_LOCAL_RANKID), or start with torchrun",
        "pytorch torch/distributed/rendezvous.py; argonne-lcf frameworks; os.environ['LOCAL_RANK']",
    ),
    LogPattern(
        "world_sizes",
        "WORLD_SIZE_MISMATCH",
        r"world size \d+ does not match|WORLD_SIZE.*(does not match|differs|mismatch)"
        r"|waiting for \d+ more (worker|process|rank)",
        "export WORLD_SIZE=${SLURM_STEP_NUM_TASKS:-$OMPI_COMM_WORLD_SIZE}\n# in each task, from its launcher",
        "microsoft/DeepSpeed comm.py; ray-project/ray",
        vague=True,
    ),
    LogPattern(
        "srun_unused",
        "SCOPE_MIX",
        r"`?srun`? command is available on your system but is not used",
        "srun COMMAND\n# in the batch script; without srun: unset SLURM_NTASKS",
        "Lightning-AI/pytorch-lightning fabric/plugins/environments/slurm.py",
        severity=Severity.WARNING,
    ),
    LogPattern(
        "ntasks_without_nodes",
        "UNEVEN_TASKS",
        r"You set `--ntasks=\d+` in your SLURM bash script, but this variable is not supported",
        "sbatch --ntasks-per-node=N SCRIPT\n# instead of --ntasks",
        "Lightning-AI/pytorch-lightning fabric/plugins/environments/slurm.py",
    ),
    LogPattern(
        "name_unknown",
        "MASTER_ADDR_WRONG",
        r"gai ?error: *-?\d+ - |getaddrinfo failed|Name or service not known"
        r"|Temporary failure in name resolution|Unable to resolve hostname to a \(local\) address",
        'export MASTER_ADDR=$(scontrol show hostnames "$SLURM_STEP_NODELIST" | head -n 1)',
        f"{_TORCH_STORE}; gloo transport/tcp/device.cc",
    ),
    LogPattern(
        "address_families",
        "MASTER_ADDR_WRONG",
        r"ss1\.ss_family == ss2\.ss_family",
        "export GLOO_SOCKET_IFNAME=INTERFACE NCCL_SOCKET_FAMILY=AF_INET\n# one address family for all",
        "pytorch/gloo gloo/transport/tcp/address.cc",
    ),
    LogPattern(
        "gloo_loopback",
        "MASTER_ADDR_WRONG",
        r"connectFullMesh failed.*remote=\[?127\.|connectFullMesh failed.*remote=\[?::1",
        "export GLOO_SOCKET_IFNAME=INTERFACE\n# the host's name resolves to loopback; or fix /etc/hosts",
        "pytorch/gloo gloo/rendezvous/context.cc",
    ),
    LogPattern(
        "gloo_mesh",
        "COMMUNICATION_FAILED",
        r"connectFullMesh failed(?!.*remote=\[?(127\.|::1))",
        "export GLOO_SOCKET_IFNAME=INTERFACE\n# the same network on all hosts (ls /sys/class/net)",
        "pytorch/gloo gloo/rendezvous/context.cc",
        vague=True,
    ),
    LogPattern(
        "port_in_use",
        "MASTER_PORT_COLLISION",
        r"EADDRINUSE|address already in use|errno: 98\b",
        "# another port: MASTER_PORT outside /proc/sys/net/ipv4/ip_local_port_range, one per job and step;"
        " and one torchrun per node only",
        f"{_TORCH_STORE}; errno 98",
    ),
    LogPattern(
        "store_timeout",
        "MASTER_ADDR_WRONG",
        r"client socket has (timed out|failed to connect)|Timed out after \d+ seconds waiting for clients"
        r"|RendezvousTimeoutError|RendezvousConnectionError|waiting for clients\. \d+/\d+ clients joined",
        "echo $MASTER_ADDR:$MASTER_PORT\n# on every rank: all must start and name rank 0's host; from another"
        " node: nc -zv $MASTER_ADDR $MASTER_PORT",
        f"{_TORCH_STORE}; torch/csrc/distributed/c10d/TCPStore.cpp; elastic rendezvous/api.py",
        severity=Severity.ERROR,
        vague=True,
    ),
    LogPattern(
        "bridge_address",
        "IFACE_WRONG",
        r"(Connect to|connect to|remote=\[?) ?172\.17\.\d+\.\d+",
        "export NCCL_SOCKET_IFNAME=^lo,docker GLOO_SOCKET_IFNAME=INTERFACE\n# docker0's address is every"
        " host's own",
        f"{_NCCL_SOCKET}; Docker's default bridge network",
    ),
    LogPattern(
        "no_interface",
        "IFACE_WRONG",
        r"Bootstrap ?: no (?:usable )?socket interface found|Unable to find address for:? *\S+"
        r"|No interface found (in the same subnet|starting with)|NET/Socket ?: no interface found",
        "unset NCCL_SOCKET_IFNAME GLOO_SOCKET_IFNAME\n# or name one of: ls /sys/class/net (gloo: plain"
        " names)",
        "NVIDIA/nccl src/bootstrap.cc; pytorch/gloo transport/tcp/device.cc",
    ),
    LogPattern(
        "nccl_connect",
        "COMMUNICATION_FAILED",
        r"socketStartConnect: Connect to \S+ failed|socketPollConnect: \S*.*(refused|timed out)"
        r"|Call to connect (?:to \S+ )?(?:returned|failed).*(refused|timed out|No route)",
        "export NCCL_SOCKET_IFNAME=INTERFACE\n# of the network that joins the nodes: NCCL cannot reach a"
        " peer's address; or the peer has died: see the first error in the log",
        _NCCL_SOCKET,
        vague=True,
    ),
    LogPattern(
        "nccl_remote",
        "COMMUNICATION_FAILED",
        r"ncclRemoteError|remote process exiting prematurely|unhandled system error|ncclSystemError"
        r"|Watchdog caught collective operation timeout|Connection closed by (remote )?peer",
        "export NCCL_DEBUG=WARN\n# and look for the rank that failed first, this one only noticed",
        "NVIDIA/nccl src/include/nccl.h.in; pytorch ProcessGroupNCCL.cpp",
        vague=True,
    ),
    LogPattern(
        "nccl_rings",
        "NIC_FILTER_DIVERGENT",
        r"ncclBuildRings failed|NCCL_IB_HCA.*(differ|mismatch)",
        "unset NCCL_IB_HCA\n# one NCCL_IB_HCA for all ranks of a node (or none); UCX_NET_DEVICES may"
        " differ per rank",
        "NVIDIA/nccl src/graph/rings.cc",
        vague=True,
    ),
    LogPattern(
        "cpu_bind_outside",
        "CPU_MASK_INHERITED",
        r"CPU binding outside of job step allocation|Unable to satisfy cpu bind request",
        "unset ${!SLURM_CPU_BIND*}\n# before srun: an outer step's were inherited; or srun --cpu-bind=none",
        "SchedMD/slurm src/plugins/task/affinity/dist_tasks.c (seen on 22.05.8)",
    ),
    LogPattern(
        "step_expired",
        "STALE_ENV",
        r"Invalid job id specified|SLURM_JOBID? .*(expired|not found)|Job/step already complet",
        "unset ${!SLURM_*}\n# the variables are of a job that is over",
        "SchedMD/slurm src/common/slurm_errno.c",
    ),
    LogPattern(
        "launch_refused",
        "LAUNCH_FAILED",
        r"srun: (?:error|fatal): (?:Task launch for StepId=\S+ failed"
        r"|Unable to (?:create step|allocate resources)"
        r"|Application launch failed|SLURM_\w+ is mutually exclusive|Invalid generic resource"
        r"|Entire node must be allocated|Failed to parse --cpu-bind)(?!.*cpu bind request)",
        "scontrol show job -d $SLURM_JOB_ID\n# compare what is asked with what the job has; before"
        " submitting: clusterlab bind explain --submit 'srun OPTIONS'",
        "SchedMD/slurm src/common/slurm_errno.c (seen on 22.05.8)",
    ),
    LogPattern(
        "hostname_ipc",
        "HOSTNAME_COLLISION",
        r"(P2P|IPC).{0,20}between different hosts",
        "export NCCL_HOSTID=$(hostname -f)\n# on all ranks: two machines share a short name or boot id",
        "NVIDIA/nccl src/misc/utils.cc getHostHash",
    ),
    LogPattern(
        "egl_device",
        "CVD_STALE_INDEX_SPACE",
        r"(MUJOCO_)?EGL_DEVICE_ID\b.*(integer between|must be|needs to be)|EGL device id.*(not|invalid)",
        "export MUJOCO_EGL_DEVICE_ID=0\n# with one GPU visible, else the index of nvidia-smi: EGL counts the"
        " GPUs of the node, CUDA those of the mask",
        "google-deepmind/dm_control _render/pyopengl/egl_renderer.py; robosuite",
    ),
    LogPattern(
        "egl_driver",
        "CONTAINER_ENV",
        r"Cannot initialize a (headless )?EGL (device )?display|eglInitialize failed|EGL_NOT_INITIALIZED",
        "export NVIDIA_DRIVER_CAPABILITIES=all\n# graphics, for the container; /dev/dri must be readable",
        "google-deepmind/dm_control egl_renderer.py; NVIDIA container toolkit",
        severity=Severity.ERROR,
    ),
    LogPattern(
        "late_mask",
        "CVD_SET_AFTER_INIT",
        r"(set|chang)\w* CUDA_VISIBLE_DEVICES after|CUDA_VISIBLE_DEVICES.*(already been )?initiali[sz]ed",
        "# export CUDA_VISIBLE_DEVICES before the process starts, in the launcher or its wrapper",
        "huggingface/accelerate, ray-project/ray warnings",
    ),
    LogPattern(
        "omp_default",
        "OMP_THREADS",
        r"Setting OMP_NUM_THREADS environment variable for each process to be 1",
        "export OMP_NUM_THREADS=$((CORES / RANKS))\n# cores of the node, ranks on it",
        "pytorch torch/distributed/run.py",
        severity=Severity.INFO,
        vague=True,
    ),
)
