# SPDX-License-Identifier: Apache-2.0

import os

from spack_repo.builtin.build_systems.cmake import CMakePackage
from spack_repo.builtin.build_systems.cuda import CudaPackage
from spack_repo.builtin.build_systems.rocm import ROCmPackage

from spack.package import *


class Halograd(CMakePackage, CudaPackage, ROCmPackage):
    """Convolutional-network training for clusters: replicas are kept together by averaging weights with their
    neighbours on a graph, through MPI one-sided communication, on Kokkos."""

    # The repository that this recipe lies in. Releases are named by their commits, since a clone may have no tags.
    git = "file://" + os.path.abspath(os.path.join(os.path.dirname(__file__), *[".."] * 5))
    version("main", branch="main")
    version("0.1.0", commit="67deddf80cba409d46542a69e162b5dde7c99c73")

    license("Apache-2.0")

    variant("openmp", default=True, description="Train on the cores of a node")
    # +cuda cuda_arch=... and +rocm amdgpu_target=... come with the two base classes
    variant("hip", default=False, description="For AMD devices, compiled for them but run on none yet: the same as +rocm")
    variant("images", default=True, description="Import folders of PNG and JPEG files")
    variant("tests", default=False, description="Build the test suite and the benchmarks")
    variant("kokkos-kernels", default=False, description="Simulate with Kokkos Kernels, and compare with it in benchmarks")

    requires("+openmp", "+cuda", "+rocm", policy="any_of", msg="halograd needs a parallel backend of Kokkos")
    requires("+rocm", when="+hip")
    requires("+hip", when="+rocm")
    conflicts("+cuda", when="+rocm", msg="Kokkos has one device backend at a time")
    conflicts("cuda_arch=none", when="+cuda", msg="name the device: cuda_arch=90")

    # Ranges are those that ran, on cores or on NVIDIA devices: tests/install/versions.py holds them against versions.csv. For AMD
    # devices only Kokkos 3.4 compiled the program, which Spack does not have. Neither +cuda nor +rocm was built by Spack, whose
    # Kokkos 4.6 takes CUDA 12; 13.0 is what ran.
    depends_on("c", type="build")
    depends_on("cxx", type="build")
    requires("%gcc@12.2:16.2", "%clang@14.0", policy="any_of", when="~rocm", msg="halograd ran with these compilers")
    depends_on("cmake@3.25:4.3", type="build")
    depends_on("git", type="build")

    depends_on("kokkos@3.4:5.2 +serial")
    depends_on("kokkos +openmp", when="+openmp")
    depends_on("kokkos@4.6 +cuda +wrapper +cuda_lambda", when="+cuda")
    for arch in CudaPackage.cuda_arch_values:
        depends_on(f"kokkos cuda_arch={arch}", when=f"+cuda cuda_arch={arch}")
    for target in ROCmPackage.amdgpu_targets:
        depends_on(f"kokkos +rocm amdgpu_target={target}", when=f"+rocm amdgpu_target={target}")
    depends_on("kokkos-kernels@3.4:4.6", when="+kokkos-kernels")
    depends_on("mpi")
    requires("^[virtuals=mpi] mpich@4.0:5.0", "^[virtuals=mpi] openmpi@4.1", policy="one_of", msg="halograd ran with these MPIs")
    depends_on("hdf5@1.10.8:2.2 +mpi")
    depends_on("lapack")
    depends_on("zlib-api")
    depends_on("libpng@1.6", when="+images")
    depends_on("libjpeg-turbo", when="+images")
    depends_on("toml11@3.7:4.4")
    depends_on("cli11@2.1:2.6")
    depends_on("nlohmann-json@3.11")

    # Tables and plots of runs: jobscripts/sweep_table.py, plot_metrics.py
    depends_on("py-h5py", type="run")
    depends_on("py-matplotlib", type="run")

    with when("+tests"):
        depends_on("googletest@1.12:1.17")
        depends_on("benchmark@1.7:1.9")
        depends_on("python@3.11:3.14", type="build")

    def cmake_args(self):
        spec = self.spec
        backend = "cuda" if "+cuda" in spec else "hip" if "+rocm" in spec else "openmp"
        args = [
            self.define("HALOGRAD_BACKEND", backend),
            # Spack's own target flags choose the vector unit.
            self.define("HALOGRAD_NATIVE", False),
            self.define_from_variant("HALOGRAD_IMAGES", "images"),
            self.define_from_variant("HALOGRAD_BUILD_TESTS", "tests"),
            self.define_from_variant("HALOGRAD_BUILD_BENCHMARKS", "tests"),
            self.define_from_variant("HALOGRAD_KOKKOS_KERNELS", "kokkos-kernels"),
            self.define("MPI_C_COMPILER", spec["mpi"].mpicc),
            self.define("MPI_CXX_COMPILER", spec["mpi"].mpicxx),
        ]
        if "+cuda" in spec:
            args.append(self.define("CMAKE_CXX_COMPILER", self["kokkos"].kokkos_cxx))
        if "+rocm" in spec:
            args.append(self.define("CMAKE_CXX_COMPILER", spec["hip"].hipcc))
        return args
