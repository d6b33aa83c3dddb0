#!/usr/bin/env python3
"""The easyconfigs of site/easybuild fit this checkout and EasyBuild's own repository: what they are named, the options that
they give to CMake, the packages that CMake looks for, and the easyconfigs that they depend on.

    easyconfigs.py BUILD_FOLDER CMAKE_ARGUMENT...    the arguments name what EasyBuild would: compilers, Kokkos, HDF5
    easyconfigs.py --record FOLDER VERSION           writes easyconfigs.json from that release of easybuild-easyconfigs

EasyBuild itself is not asked: an easyconfig is Python, and runs here with the few constants that these use.
"""

import glob
import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
FOLDER = os.path.join(SOURCE, "site", "easybuild")
RECORD = os.path.join(HERE, "easyconfigs.json")
CONSTANTS = {"SOURCE_TAR_GZ": "%(name)s-%(version)s.tar.gz"}
# Toolchains that foss/2025b is made of, and what it has without a dependency being named.
TOOLCHAINS = ["GCCcore-14.3.0", "GCC-14.3.0", "gompi-2025b", "gfbf-2025b", "foss-2025b"]
IN_TOOLCHAIN = {"Threads", "MPI", "LAPACK", "BLAS", "OpenMP"}
# Names of CMake's packages that EasyBuild writes otherwise.
EASYBUILD_NAMES = {"ZLIB": "zlib", "PNG": "libpng", "TurboJPEG": "libjpeg-turbo"}
OPTIONAL = {"Git", "KokkosKernels"}  # the revision of a checkout; declined by an option
OF_CMAKE = {"BLA_VENDOR", "HDF5_C_COMPILER_EXECUTABLE"}  # options that CMake's own modules read
LEAST = {"Kokkos": (3, 4), "HDF5": (1, 10, 5), "nlohmann_json": (3, 10), "toml11": (3, 7), "CMake": (3, 22)}  # docs/building.md


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def load(path):
    values = dict(CONSTANTS)
    exec(compile(read(path), path, "exec"), values)  # ours: see FOLDER
    return values


def numbers(version):
    return tuple(int(part) for part in re.findall(r"\d+", version))


def file_name(name, version, toolchain):
    return f"{name}-{version}-{toolchain}.eb"


def dependencies(config):
    return [(name, version) for name, version, *_ in config.get("dependencies", []) + config.get("builddependencies", [])]


def check_files(configs):
    """Each is named after what it says, and depends on files that EasyBuild or this folder has."""
    record = json.loads(read(RECORD))
    known = set(record["files"]) | {os.path.basename(path) for path in configs}
    for path, config in configs.items():
        toolchain = "{name}-{version}".format(**config["toolchain"])
        if os.path.basename(path) != file_name(config["name"], config["version"], toolchain):
            sys.exit(f"{path} holds {config['name']} {config['version']} for {toolchain}")
        below = TOOLCHAINS[:TOOLCHAINS.index(toolchain) + 1]
        for name, version in dependencies(config):
            if not any(file_name(name, version, one) in known for one in below):
                sys.exit(f"{path}: easybuild-easyconfigs {record['release']} has no {name} {version} for {', '.join(below)}")
            if numbers(version) < LEAST.get(name, ()):
                sys.exit(f"{path}: {name} {version} is older than what halograd needs")


def check_packages(config):
    """What CMake looks for comes from a dependency or the toolchain."""
    text = "".join(read(path) for path in glob.glob(os.path.join(SOURCE, "cmake", "*.cmake")))
    asked = set(re.findall(r"^\s*(?:halograd_need|find_package)\((\w+)", text, re.MULTILINE))
    asked |= {name for name in EASYBUILD_NAMES if f"find_library({name}_" in text}
    named = {name for name, _ in dependencies(config)}
    missing = {name for name in asked - IN_TOOLCHAIN - OPTIONAL if EASYBUILD_NAMES.get(name, name) not in named}
    if len(asked) < 8 or missing:
        sys.exit(f"CMake looks for {sorted(asked)}; no dependency brings {sorted(missing)}")


def check_options(config, folder, given):
    options = config["configopts"].split()
    ours = [word for word in options if word.startswith("-DHALOGRAD_")]
    others = {word[2:].split("=")[0] for word in options if word not in ours}
    if others - OF_CMAKE:
        sys.exit(f"who reads {sorted(others - OF_CMAKE)}?")
    result = subprocess.run(["cmake", "-S", SOURCE, "-B", folder, *given, *ours], encoding="utf-8", check=False,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if result.returncode != 0 or "not used by the project" in result.stdout:
        sys.exit(f"these options do not configure: {ours}\n{result.stdout}")
    for words in ("Kokkos Kernels    not used", "tests             OFF"):
        if words not in result.stdout:
            sys.exit(f"the summary does not say '{words}':\n{result.stdout}")


def record(repository, release):
    """Every easyconfig of these toolchains whose name one of ours depends on."""
    names = {name for path in glob.glob(os.path.join(FOLDER, "*.eb")) for name, _ in dependencies(load(path))}
    files = sorted(os.path.basename(path) for name in names for toolchain in TOOLCHAINS
                   for path in glob.glob(os.path.join(repository, name[0].lower(), name, f"{name}-*-{toolchain}.eb")))
    with open(RECORD, "w", encoding="utf-8") as file:
        json.dump({"release": release, "files": files}, file, indent=1)
        file.write("\n")


def main():
    if sys.argv[1] == "--record":
        record(*sys.argv[2:])
        return
    configs = {path: load(path) for path in glob.glob(os.path.join(FOLDER, "*.eb"))}
    check_files(configs)
    own = next(config for config in configs.values() if config["name"] == "halograd")
    project = re.search(r"project\(halograd VERSION ([0-9.]+)", read(os.path.join(SOURCE, "CMakeLists.txt")))[1]
    if own["version"] != project:
        sys.exit(f"the easyconfig is that of {own['version']}, CMakeLists.txt that of {project}")
    check_packages(own)
    check_options(own, sys.argv[1], sys.argv[2:])


if __name__ == "__main__":
    main()
