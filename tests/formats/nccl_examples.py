"""A topology file and a log in NCCL's forms, written for tests."""

from __future__ import annotations

TOPOLOGY = """\
<system version="1">
  <cpu host_hash="0x1" numaid="0" affinity="00000000,0000ffff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:10:00.0" class="0x060400" vendor="0x1000" device="0xc030" subsystem_vendor="0x1000" subsystem_device="0x1003" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:1b:00.0" class="0x030200" vendor="0x10de" device="0x2330" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="90" rank="0" gdr="1">
          <nvlink target="0000:07:00.0" count="5" tclass="0x068000"/>
          <nvlink target="0000:06:00.0" count="13" tclass="0x068000"/>
        </gpu>
      </pci>
      <pci busid="0000:18:00.0" class="0x020700" vendor="0x15b3" device="0x1021" link_speed="32.0 GT/s PCIe" link_width="16">
        <nic>
          <net name="mlx5_0" dev="0" speed="400000" port="1" latency="0.000000" guid="0xabc" maxconn="131072" gdr="1"/>
        </nic>
      </pci>
    </pci>
    <nic>
      <net name="eth0" dev="1" speed="10000" port="0" latency="0.000000" guid="0x0" maxconn="65536" gdr="0"/>
    </nic>
  </cpu>
  <cpu host_hash="0x1" numaid="1" affinity="0000ffff,00000000" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:9b:00.0" class="0x030200" vendor="0x10de" device="0x2330" link_speed="32.0 GT/s PCIe" link_width="8">
      <gpu dev="1" sm="90" rank="1" gdr="1">
        <nvlink target="0000:06:00.0" count="13" tclass="0x068000"/>
        <nvlink target="0000:07:00.0" count="5" tclass="0x068000"/>
      </gpu>
    </pci>
  </cpu>
</system>
"""  # noqa: E501 - NCCL writes one element a line

SYSTEM_LINES = (
    "=== System : maxBw 370.8 totalBw 370.8 ===",
    "CPU/0-0 (1/1/3)",
    "+ PCI[48.0] - PCI/0-10000 (1000c03010001003)",
    "              + PCI[48.0] - GPU/0-1b000 (0)",
    "                            + NVL[370.8] - NVS/0-0",
    "              + PCI[48.0] - NIC/0-18000",
    "                            + NET[50.0] - NET/0-0 (0/abc/1/50.000000)",
    "+ SYS[22.0] - CPU/0-1",
    "CPU/0-1 (1/1/3)",
    "+ PCI[24.0] - GPU/0-9b000 (1)",
    "              + NVL[370.8] - NVS/0-0",
    "+ SYS[22.0] - CPU/0-0",
    "==========================================",
    "GPU/0-1b000 :GPU/0-1b000 (0/5000.0/LOC) GPU/0-9b000 (2/370.8/NVL) NET/0-0 (3/48.0/PIX) ",
    "Pattern 4, crossNic 0, nChannels 2, bw 30.000000/30.000000, type NVL/PIX, sameChannels 1",
    " 0 : GPU/0-1b000 GPU/0-9b000",
    " 1 : GPU/0-9b000 GPU/0-1b000",
)


def log(host: str = "n7", ranks: int = 2, prefix: str = "") -> str:
    """An application's NCCL_DEBUG=INFO log of one host; the lines of its ranks alternate."""
    per_rank = [
        [
            "NCCL version 2.26.6+cuda12.8",
            "NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:192.0.2.1<0>",
            f"ncclCommInitRank comm 0x55 rank {rank} nranks {ranks} cudaDev {rank} nvmlDev {rank} "
            f"busId {('1b000', '9b000')[rank]} commId 0x1 - Init START",
            *SYSTEM_LINES,
            "Channel 00/02 : 0 1",
            "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM",
        ]
        for rank in range(ranks)
    ]
    lines = [
        f"{prefix}{host}:{100 + rank}:{200 + rank} [{rank}] NCCL INFO {rows[i]}"
        for i in range(len(per_rank[0]))
        for rank, rows in enumerate(per_rank)
    ]
    return "loading model\n" + "\n".join(lines) + "\nstep 1 loss 2.5\n"
