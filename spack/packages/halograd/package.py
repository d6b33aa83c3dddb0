# SPDX-License-Identifier: Apache-2.0

from spack.package import *


class Halograd(CMakePackage):
    """Convolutional-network training for clusters: replicas are kept together by averaging weights with their
    neighbours on a graph, through MPI one-sided communication, on Kokkos."""

    # Versions come from a checkout (spack.yaml develops this one): spack install halograd@main
    version("main")

    license("Apache-2.0")

    variant("openmp", default=True, description="Train on the cores of a node")
    variant("cuda", default=False, description="Train on NVIDIA devices")
    variant("hip", default=False, description="Train on AMD devices")
    variant("images", default=True, description="Import folders of PNG and JPEG files")
    variant("tests", default=False, description="Build the test suite and the benchmarks")

    conflicts("~openmp ~cuda ~hip", msg="halograd needs a parallel backend of Kokkos")
    conflicts("+cuda", when="+hip", msg="Kokkos has one device backend at a time")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("git", type="build")

    depends_on("kokkos@3.4: +serial")
    depends_on("kokkos +openmp", when="+openmp")
    depends_on("kokkos +cuda +cuda_lambda", when="+cuda")
    depends_on("kokkos +rocm", when="+hip")
    depends_on("kokkos-kernels")
    depends_on("mpi@3:")
    depends_on("hdf5@1.10: +mpi")
    depends_on("lapack")
    depends_on("zlib-api")
    depends_on("libpng@1.6:", when="+images")
    depends_on("libjpeg-turbo", when="+images")
    depends_on("toml11@3.7:")
    depends_on("cli11@2:")

    # Plots of a run: jobscripts/plot_metrics.py
    depends_on("py-h5py", type="run")
    depends_on("py-matplotlib", type="run")

    with when("+tests"):
        depends_on("googletest@1.11:")
        depends_on("benchmark")
        depends_on("python@3.9:", type="build")

    def cmake_args(self):
        spec = self.spec
        backend = "cuda" if "+cuda" in spec else "hip" if "+hip" in spec else "openmp"
        args = [
            self.define("HALOGRAD_BACKEND", backend),
            # Spack's own target flags choose the vector unit.
            self.define("HALOGRAD_NATIVE", False),
            self.define_from_variant("HALOGRAD_IMAGES", "images"),
            self.define_from_variant("HALOGRAD_BUILD_TESTS", "tests"),
            self.define_from_variant("HALOGRAD_BUILD_BENCHMARKS", "tests"),
            self.define("MPI_CXX_COMPILER", spec["mpi"].mpicxx),
        ]
        if "+cuda" in spec:
            args.append(self.define("CMAKE_CXX_COMPILER", spec["kokkos"].kokkos_cxx))
        if "+hip" in spec:
            args.append(self.define("CMAKE_CXX_COMPILER", spec["hip"].hipcc))
        return args
