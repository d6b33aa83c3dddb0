#!/usr/bin/env python3
"""The CMake arguments that the Spack recipe emits for the plainest spec configure this checkout, and all are known to it.

    spack_arguments.py BUILD_FOLDER CMAKE_ARGUMENT...       the arguments name what Spack would: compilers, Kokkos, HDF5

The recipe's own cmake_args runs, beside a stand-in for Spack that knows just what cmake_args asks. Names of dependencies and
variants are held against Spack's repository by spack_names.py.
"""

import importlib.util
import os
import subprocess
import sys
import types

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RECIPE = os.path.join(SOURCE, "spack", "spack_repo", "halograd", "packages", "halograd", "package.py")


class Base:
    cuda_arch_values = amdgpu_targets = ()

    def define(self, name, value):
        return f"-D{name}={'ON' if value is True else 'OFF' if value is False else value}"

    def define_from_variant(self, name, variant):
        return self.define(name, f"+{variant}" in self.spec)


class Directive:
    """version, variant, depends_on, ...; also `with when(...)`."""

    def __call__(self, *words, **options):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False


class Spec(set):
    """Variants that are on; the MPI is the one that the test is given."""

    def __init__(self, variants, mpi):
        super().__init__(variants)
        self.mpi = mpi

    def __getitem__(self, name):
        return {"mpi": self.mpi}[name]


def load_recipe():
    package = types.ModuleType("spack.package")
    for name in ("version", "license", "variant", "requires", "conflicts", "depends_on", "when"):
        setattr(package, name, Directive())
    sys.modules.update({"spack": types.ModuleType("spack"), "spack.package": package})
    for name in ("spack_repo", "spack_repo.builtin", "spack_repo.builtin.build_systems"):
        sys.modules[name] = types.ModuleType(name)
    for name, cls in (("cmake", "CMakePackage"), ("cuda", "CudaPackage"), ("rocm", "ROCmPackage")):
        module = types.ModuleType(name)
        setattr(module, cls, type(cls, (Base,) if name == "cmake" else (), dict(vars(Base)) if name != "cmake" else {}))
        sys.modules[f"spack_repo.builtin.build_systems.{name}"] = module
    spec = importlib.util.spec_from_file_location("recipe", RECIPE)
    recipe = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(recipe)
    return recipe.Halograd


def main():
    folder, *given = sys.argv[1:]
    named = dict(word[2:].split("=", 1) for word in given if word.startswith("-D"))
    package = load_recipe()()
    package.spec = Spec({"+openmp"}, types.SimpleNamespace(mpicc=named["MPI_C_COMPILER"], mpicxx=named["MPI_CXX_COMPILER"]))
    arguments = package.cmake_args()
    print(*arguments, sep="\n")
    result = subprocess.run(["cmake", "-S", SOURCE, "-B", folder, *given, *arguments], encoding="utf-8", check=False,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if result.returncode != 0 or "not used by the project" in result.stdout:
        sys.exit(f"these arguments do not configure:\n{result.stdout}")
    for words in ("Kokkos Kernels    not used", "tests             OFF", "benchmarks        OFF"):
        if words not in result.stdout:
            sys.exit(f"the summary does not say '{words}':\n{result.stdout}")


if __name__ == "__main__":
    main()
