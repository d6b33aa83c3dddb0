"""The rules on who may include what: DESIGN.md's layout as data.

check_tree(root) returns one line for each violation. Only text is read, no compiler is needed.
"""

import pathlib
import re

CODE_FOLDERS = ("kernels", "lib", "app")
CODE_ENDINGS = (".hpp", ".cpp")

# Lowest first: a folder includes itself and the floors below, never its neighbours on the same floor.
FLOORS = (
    {"kernels"},
    {"support"},
    {"mpi"},
    {"hdf5"},
    {"config"},
    {"graph"},
    {"window"},
    {"nn", "data", "io", "averagers", "optimizers"},
    {"run"},
    {"convert"},
    {"train"},
    {"app"},
)
MAY_INCLUDE = {folder: {folder}.union(*FLOORS[:level]) for level, floor in enumerate(FLOORS) for folder in floor}

# Headers of libraries: which files may include them (paths from the root, as regular expressions).
LIBRARY_HEADERS = {
    r"mpi(-ext)?\.h": r"lib/(mpi|window|averagers)/",
    r"(hdf5|hdf5_hl|H5\w*)\.h": r"lib/hdf5/",
    r"toml(11)?(/.*)?\.hpp": r"lib/config/toml11\.hpp",
    r"CLI(11)?(/.*)?\.hpp": r"app/",
    r"nlohmann/.*": r"lib/support/json\.hpp",
    r"(omp|immintrin|cuda.*|hip/.*)\.?.*": r"kernels/",
}

# Words of a backend or a version of Kokkos: which files may use them.
WORDS = {
    r"Kokkos::(Experimental::)?(OpenMP|Cuda|HIP|SYCL|Serial|Threads|HPX|OpenMPTarget)\w*": r"kernels/",
    r"KOKKOS_(ENABLE|ARCH)_\w+": r"kernels/",
    r"\b__(CUDA|HIP|AVX)\w*": r"kernels/",
    r"#\s*(el)?if.*\bKOKKOS_VERSION\w*": r"kernels/compat\.hpp",
}

# What a thing is called stands in its table (lib/support/table.hpp), and the program asks the row for a fact. A text is
# compared with a literal only where literals are somebody else's format, or a file's or dataset's name.
LITERAL = re.compile(r'[=!]=\s*"')
FOREIGN_FORMATS = (
    r"app/convert\.cpp",  # endings of files, the first bytes of HDF5, --replica mean
    r"lib/config/document\.cpp",  # TOML
    r"lib/convert/(image_file|safetensors)\.cpp",
    r"lib/data/(disk_cache|idx_dataset)\.cpp",  # names of files
    r"lib/io/checkpoint_\w+\.cpp",  # names in a checkpoint
    r"lib/support/terminal\.cpp",  # names of devices
)

# A function that belongs to no class, as clang-format lays it out: both ends of its body stand at a line's begin or end.
FUNCTION = re.compile(r"^(?!class|struct|enum|union|namespace|template)(\w[^\n;{}]*(?:\n +[^ \n;{}][^\n;{}]*)*)\{\n(.*?)^\}", re.M | re.S)
NAME = re.compile(r"(?<![\w:.])(\w+)\(")

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def folder_of(path):
    """The folder of the rules that a file lies in: lib/mpi/x.hpp -> mpi, app/main.cpp -> app."""
    parts = path.split("/")
    return parts[1] if parts[0] == "lib" and len(parts) > 2 else parts[0]


def without_comments(text):
    """The text with comments blanked, line numbers kept. Strings are left as they are."""
    blank = lambda match: "\n" * match.group().count("\n")
    return re.sub(r"//[^\n]*", "", re.sub(r"/\*.*?\*/", blank, text, flags=re.S))


def find_header(root, name):
    """Where a quoted include leads: kernels/x.hpp and app/x.hpp from the root, mpi/x.hpp from lib/; or None."""
    for path in (name, f"lib/{name}"):
        if (root / path).is_file() or (root / f"{path}.in").is_file():
            return path
    return None


def check_include(root, path, kind, name):
    """The complaint about one include, or None; and the file of ours that it leads to, or None."""
    if kind == "<":
        for header, place in LIBRARY_HEADERS.items():
            if re.fullmatch(header, name) and not re.match(place, path):
                return f"<{name}> may be included only by {place}", None
        return None, None
    target = find_header(root, name)
    if target is None:
        return f'"{name}" is no header of this tree (own headers are named from the root or from lib/)', None
    if target == "lib/version.hpp":
        return None, None
    source, wanted = folder_of(path), folder_of(target)
    if wanted not in MAY_INCLUDE.get(source, set()):
        return f'{source} may not include {wanted}: "{name}"', target
    return None, target


def check_code(root, path, edges):
    """The complaints about one source file; fills edges[path] with the headers of ours that it includes."""
    text = (root / path).read_text(encoding="utf-8")
    complaints = []
    if path.endswith(".hpp") and not text.startswith("#pragma once\n"):
        complaints.append(f"{path}:1: a header begins with #pragma once")
    own_header = path[:-len(".cpp")] + ".hpp"
    if path.endswith(".cpp") and (root / own_header).is_file():
        first = next(filter(None, map(INCLUDE.match, without_comments(text).split("\n"))), None)
        if first is None or find_header(root, first.group(2)) != own_header:
            complaints.append(f"{path}: the first include is its own header, so that this is seen to compile alone")
    for number, line in enumerate(without_comments(text).split("\n"), 1):
        include = INCLUDE.match(line)
        if include:
            complaint, target = check_include(root, path, *include.groups())
            if complaint:
                complaints.append(f"{path}:{number}: {complaint}")
            if target:
                edges.setdefault(path, []).append(target)
        for word, place in WORDS.items():
            found = re.search(word, line)
            if found and not re.match(place, path):
                complaints.append(f"{path}:{number}: {found.group()} may stand only in {place}")
    return complaints + check_literals(path, text)


def check_literals(path, text):
    """The complaints about comparisons with string literals in one source file."""
    if any(re.fullmatch(place, path) for place in FOREIGN_FORMATS):
        return []
    return [f"{path}:{number}: compares with a string literal; ask a table's row for a fact (lib/support/table.hpp)"
            for number, line in enumerate(without_comments(text).split("\n"), 1) if LITERAL.search(line)]


def check_test(root, path):
    """The complaint about a test's source, if any: sources are compiled together, so each has a namespace of its own."""
    name = pathlib.PurePath(path).stem
    if re.search(rf"^namespace (halograd::)?{name} {{$", (root / path).read_text(encoding="utf-8"), re.M):
        return []
    return [f"{path}: its names lie in namespace halograd::{name}"]


def helpers(text):
    """The name, body without white space and line of each free function of at least three lines in one source file."""
    text = without_comments(text)
    for function in FUNCTION.finditer(text):
        name = NAME.search(function.group(1))
        if name and function.group(2).count("\n") >= 3:
            yield name.group(1), "".join(function.group(2).split()), text.count("\n", 0, function.start()) + 1


def check_doubles(root, paths):
    """One complaint for each free function whose body stands in these files before, under whatever name."""
    complaints, known = [], {}
    for path in paths:
        for name, body, line in helpers((root / path).read_text(encoding="utf-8")):
            first = known.setdefault(body, f"{name} ({path}:{line})")
            if first != f"{name} ({path}:{line})":
                complaints.append(f"{path}:{line}: {name} has the same body as {first}: expected one function for both")
    return complaints


def find_circle(edges):
    """One circle of includes as a list of files, or None."""
    done, trail = set(), []

    def visit(path):
        if path in trail:
            return trail[trail.index(path):] + [path]
        if path in done:
            return None
        trail.append(path)
        for target in edges.get(path, ()):
            circle = visit(target)
            if circle:
                return circle
        trail.pop()
        done.add(path)
        return None

    for path in sorted(edges):
        circle = visit(path)
        if circle:
            return circle
    return None


def files(root, folders, endings):
    """Paths from the root of all files with those endings, in order."""
    found = []
    for folder in folders:
        found += [p.relative_to(root).as_posix() for p in sorted((root / folder).rglob("*")) if p.suffix in endings]
    return found


def check_tree(root):
    """One line for each violation below root; none when all is well."""
    root = pathlib.Path(root)
    complaints, edges = [], {}
    sources = files(root, CODE_FOLDERS, CODE_ENDINGS)
    for path in sources:
        complaints += check_code(root, path, edges)
    complaints += check_doubles(root, sources)
    for path in files(root, ("tests",), (".cpp",)):
        if path.endswith("_test.cpp"):
            complaints += check_test(root, path)
    circle = find_circle(edges)
    if circle:
        complaints.append("circle of includes: " + " -> ".join(circle))
    return complaints
