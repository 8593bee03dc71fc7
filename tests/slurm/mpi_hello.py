"""A program of Open MPI, by ctypes: prints its rank and size as MPI sees them."""

from __future__ import annotations

import ctypes


def main() -> None:
    mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
    mpi.MPI_Init(None, None)
    world = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(mpi, "ompi_mpi_comm_world")))
    rank, size = ctypes.c_int(), ctypes.c_int()
    mpi.MPI_Comm_rank(world, ctypes.byref(rank))
    mpi.MPI_Comm_size(world, ctypes.byref(size))
    print(f"MPI rank {rank.value} of {size.value}", flush=True)
    mpi.MPI_Finalize()


if __name__ == "__main__":
    main()
