#!/usr/bin/env python3
"""Holds every name that spack/ uses of other packages against Spack's package repository: packages, virtual packages,
variants and their values, and versions of which there must be one.

    spack_names.py                            against spack_names.json, what the repository had when it was recorded
    spack_names.py --repository FOLDER        against a checkout of github.com/spack/spack-packages
    spack_names.py --repository FOLDER --record COMMIT      writes spack_names.json

Recipes are run, ours and theirs, with a stand-in for Spack that takes down what their directives say.
"""

import argparse
import ast
import builtins
import glob
import json
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SPACK = os.path.join(ROOT, "spack")
RECIPE = os.path.join(SPACK, "spack_repo", "halograd", "packages", "halograd", "package.py")
ENVIRONMENTS = [os.path.join(ROOT, "spack.yaml"), *sorted(glob.glob(os.path.join(SPACK, "*", "spack.yaml")))]
RECORD = os.path.join(HERE, "spack_names.json")
BASES = {"CMakePackage": "cmake", "CudaPackage": "cuda", "ROCmPackage": "rocm"}
PROVIDERS = {"mpi": "mpich", "lapack": "openblas", "zlib-api": "zlib", "c": "gcc", "cxx": "gcc"}
COMPILERS = {"clang": "llvm"}  # names that Spack takes for a package after %


class Base:
    """Of a package that is not looked at."""


class Anything:
    """Stands for whatever a recipe uses beside the directives that are taken down."""

    def __getattr__(self, name):
        return Anything()

    def __call__(self, *words, **options):
        decorates = len(words) == 1 and callable(words[0]) and not isinstance(words[0], Anything)
        return words[0] if decorates else Anything()

    def __mro_entries__(self, bases):
        return (type("Base", (Base,), {}),)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False

    def __iter__(self):
        return iter(())

    def __getitem__(self, key):
        return Anything()

    def __add__(self, other):
        return Anything()

    __radd__ = __or__ = __and__ = __lt__ = __gt__ = __le__ = __ge__ = __mod__ = __sub__ = __add__


def run_recipe(path, given=None):
    """What the directives of a recipe say, and its classes."""
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    ours = lambda name: name.split(".")[0] in ("spack", "spack_repo", "llnl")
    tree.body = [node for node in tree.body if not (isinstance(node, ast.ImportFrom) and (node.level or ours(node.module)))
                 and not (isinstance(node, ast.Import) and any(ours(alias.name) for alias in node.names))]
    bases = {base.id for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for base in node.bases
             if isinstance(base, ast.Name)}
    found = {"versions": [], "variants": {}, "provides": [], "depends_on": [], "requires": []}

    def variant(name, *_, values=(), **__):
        plain = values if isinstance(values, (tuple, list)) else ()
        known = found["variants"].setdefault(name, [])
        known += [value for value in plain if isinstance(value, str) and value not in known]

    def specs(kind):
        return lambda *words, **options: found[kind].append([*map(str, words), str(options.get("when", ""))])

    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - (set(dir(builtins)) - {"license"})
    scope = {name: type(name, (Base,), {}) if name in bases else Anything() for name in names}
    scope |= {"__name__": "recipe", "__file__": path,
              "version": lambda name, *_, **__: found["versions"].append(str(name)), "variant": variant,
              "provides": lambda *names, **__: found["provides"].extend(names), "depends_on": specs("depends_on"),
              "requires": specs("requires"), **(given or {})}
    exec(compile(tree, path, "exec"), scope)  # pylint: disable=exec-used
    return found, scope


def read_repository(folder, wanted):
    """What a checkout of Spack's packages has of those that are wanted."""
    root = os.path.join(folder, "repos", "spack_repo", "builtin")
    known = {"packages": {}, "virtual": {}, "bases": {}}
    arch = {}
    for cls, name in BASES.items():
        found, scope = run_recipe(os.path.join(root, "build_systems", f"{name}.py"))
        known["bases"][cls] = found["variants"]
        for values in ("cuda_arch_values", "amdgpu_targets"):
            arch[values] = tuple(getattr(scope[cls], values, ())) or arch.get(values, ())
    known["bases"]["CudaPackage"]["cuda_arch"] = list(arch["cuda_arch_values"])
    known["bases"]["ROCmPackage"]["amdgpu_target"] = list(arch["amdgpu_targets"])
    for package in sorted(wanted | set(PROVIDERS.values())):
        path = os.path.join(root, "packages", package.replace("-", "_"), "package.py")
        if not os.path.exists(path):
            continue
        given = {cls: type(cls, (Base,), dict(arch)) for cls in BASES}
        found, scope = run_recipe(path, given)
        cls = scope["".join(word.capitalize() for word in package.split("-"))]
        variants = dict(found["variants"])
        for base in cls.__mro__[1:]:
            variants |= known["bases"].get(base.__name__, {})
        known["packages"][package] = {"versions": found["versions"], "variants": variants}
        for virtual in found["provides"]:
            name = re.split("[@+~ ]", virtual)[0]
            if PROVIDERS.get(name) == package:
                known["virtual"][name] = package
    return known


def parts(spec):
    """Package, version range and variants of each package that a spec names: {name: [(range, [(variant, value)])]}."""
    for piece in re.split(r"\s*[\^%]\s*", re.sub(r"\[[^]]*\]\s*", "", spec.strip())):
        if not piece:
            continue
        name = re.match(r"[a-z0-9_-]*", piece).group()
        span = re.search(r"@([0-9.:,]+|[a-z]+)", piece)
        switches = re.findall(r"[+~]([a-z0-9_-]+)", piece[len(name):])
        pairs = re.findall(r"([a-z0-9_]+)=(\S+)", piece[len(name):])
        yield name, span.group(1) if span else "", [(switch, None) for switch in switches] + pairs


def within(version, span):
    """Whether a version lies in a range as Spack writes it: 3.7:3 ends with all of 3, and 1.10: has no end."""
    number = lambda text: [int(digits) for digits in re.findall(r"\d+", text)]
    if not re.match(r"\d", version):
        return False
    first, _, last = span.partition(":") if ":" in span else (span, ":", span)
    value = number(version)
    return (not first or value >= number(first)) and (not last or value[:len(number(last))] <= number(last))


def complaints(known, specs, own):
    """One line for each name that the repository does not have. `own`: the variants of our package."""
    for where, spec in specs:
        for name, span, variants in parts(spec):
            if name in known["virtual"]:
                continue
            package = {"versions": [], "variants": own}
            if name not in ("", "halograd"):
                package = known["packages"].get(COMPILERS.get(name, name))
            if package is None:
                yield f"{where}: '{spec}': there is no package {name}"
                continue
            if span and package["versions"] and not any(within(version, span) for version in package["versions"]):
                yield f"{where}: '{spec}': no version of {name} is in @{span}"
            for variant, value in variants:
                values = package["variants"].get(variant)
                if values is None:
                    yield f"{where}: '{spec}': {name or 'halograd'} has no variant {variant}"
                elif value is not None and values and value not in values and value != "none":
                    yield f"{where}: '{spec}': {variant} of {name or 'halograd'} is never {value}"


def stand_ins(cuda_arch=(), amdgpu_target=()):
    """The base classes of our recipe."""
    return {"CMakePackage": type("CMakePackage", (Base,), {}),
            "CudaPackage": type("CudaPackage", (Base,), {"cuda_arch_values": cuda_arch}),
            "ROCmPackage": type("ROCmPackage", (Base,), {"amdgpu_targets": amdgpu_target})}


def environment_specs():
    """[(place, spec)] of all that the environments say."""
    specs = []
    for path in ENVIRONMENTS:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        place = os.path.relpath(path, ROOT)
        specs += [(place, spec) for spec in re.findall(r"^  - (halograd.*)$", text, re.MULTILINE)]
        for name, require in re.findall(r"^    ([a-z0-9-]+):\n      require: (.*)$", text, re.MULTILINE):
            required = require.strip("'")
            specs.append((place, required if re.match("[a-z]", required) else f"{name} {required}"))
    return specs


def our_specs(known):
    """(place, spec) of all that the recipe and the environments say, and our own variants."""
    cuda, rocm = known["bases"]["CudaPackage"], known["bases"]["ROCmPackage"]
    found, _ = run_recipe(RECIPE, stand_ins(cuda["cuda_arch"], rocm["amdgpu_target"]))
    specs = [("package.py", spec) for kind in ("depends_on", "requires") for words in found[kind] for spec in words]
    return specs + environment_specs(), found["variants"] | cuda | rocm | known["bases"]["CMakePackage"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repository")
    parser.add_argument("--record", metavar="COMMIT")
    options = parser.parse_args()
    if options.repository:
        empty = {"bases": {"CudaPackage": {"cuda_arch": ()}, "ROCmPackage": {"amdgpu_target": ()}, "CMakePackage": {}}}
        wanted = {COMPILERS.get(name, name) for _, spec in our_specs(empty)[0] for name, _, _ in parts(spec)} | {"kokkos"}
        known = read_repository(options.repository, wanted - {"", "halograd"})
    else:
        with open(RECORD, encoding="utf-8") as file:
            known = json.load(file)
    if options.record:
        with open(RECORD, "w", encoding="utf-8") as file:
            head = {"repository": "https://github.com/spack/spack-packages", "commit": options.record}
            line = lambda pair: f'"{pair[0]}": {json.dumps(pair[1], sort_keys=True)}'
            lines = map(line, known["packages"].items())
            rest = ",\n".join(map(line, [*head.items(), ("bases", known["bases"]), ("virtual", known["virtual"])]))
            file.write("{" + rest + ',\n"packages": {\n' + ",\n".join(lines) + "\n}}\n")
    specs, own = our_specs(known)
    wrong = sorted(set(complaints(known, specs, own)))
    if wrong:
        sys.exit("\n".join(wrong))
    # the check itself: names that are not there are found
    for spec in ("kokko", "kokkos@99:", "kokkos +cudas", "hdf5 ~mpj", "+imagess", "kokkos +cuda cuda_arch=91234", "zlib-apj"):
        if not list(complaints(known, [("", spec)], own)):
            sys.exit(f"'{spec}' was not found to be wrong")
    print(f"{len(set(specs))} specs name what {len(known['packages'])} packages of Spack's repository have")


if __name__ == "__main__":
    main()
