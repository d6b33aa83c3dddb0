"""The recipes of CONTRIBUTING.md are true: each example in this folder is a patch that adds a toy to the program; it touches no
more product files than its recipe promises, compiles, and the program with the toy in it trains.

Only the sources that a patch changes are compiled, in a copy of the tree and with the build's own flags, and linked before
the build's libraries; whatever they define takes the place of what the libraries hold.
"""

import json
import os
import pathlib
import shlex
import shutil
import subprocess
import tempfile
import unittest

import h5py
import numpy as np

ROOT = pathlib.Path(os.environ["HALOGRAD_SOURCE_DIR"])
PROGRAM = pathlib.Path(os.environ["HALOGRAD_PROGRAM"])
BUILD = PROGRAM.parent
PRODUCT = ("kernels/", "lib/", "app/")


def run(command, folder):
    """The command's output; fails with it unless the command succeeds."""
    done = subprocess.run(command, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{shlex.join(map(str, command))}: status {done.returncode}\n{done.stdout[-6000:]}")
    return done.stdout


def flags_of_library():
    """How the build compiles a source of lib/, without the source and its object."""
    entries = json.loads((BUILD / "compile_commands.json").read_text(encoding="utf-8"))
    entry = next(e for e in entries if "/halograd.dir/" in e.get("output", e["command"]) and e["file"].endswith(".cpp"))  # no precompiled header
    words = shlex.split(entry["command"])
    flags, skip = [], False
    for word in words[:-1]:
        if skip or word in ("-c", "-MD"):
            skip = False
        elif word in ("-o", "-MT", "-MF"):
            skip = True
        else:
            flags.append(word)
    return flags, entry["directory"]


def link_command():
    """How the build links the program."""
    target = PROGRAM.relative_to(BUILD)
    lines = run(["ninja", "-t", "commands", str(target)], BUILD).strip().split("\n")
    words = shlex.split(lines[-1])
    begin = next(i for i, word in enumerate(words) if "++" in word or word.endswith(("hipcc", "nvcc_wrapper")))
    end = words.index("&&", begin) if "&&" in words[begin:] else len(words)
    return words[begin:end]


class Recipes(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.tree = self.folder / "tree"
        for name in ("kernels", "lib", "app", "inputs"):
            shutil.copytree(ROOT / name, self.tree / name)

    def add(self, name, most_files):
        """Applies a patch and builds the program with it."""
        patch = pathlib.Path(__file__).parent / f"{name}.patch"
        changed = [line[len("+++ b/"):].split("\t")[0] for line in patch.read_text(encoding="utf-8").splitlines() if line.startswith("+++ b/")]
        product = [path for path in changed if path.startswith(PRODUCT)]
        self.assertLessEqual(len(product), most_files, product)
        run(["git", "apply", "-C1", "--whitespace=nowarn", str(patch)], self.tree)
        flags, directory = flags_of_library()
        flags = [flag.replace(f"{ROOT}/lib", f"{self.tree}/lib") if flag.startswith("-I") else
                 f"-I{self.tree}" if flag == f"-I{ROOT}" else flag for flag in flags]
        objects = []
        for source in (path for path in product if path.endswith(".cpp")):
            objects.append(self.folder / (source.replace("/", "_") + ".o"))
            run([*flags, "-o", str(objects[-1]), "-c", str(self.tree / source)], directory)
        command = link_command()
        command[command.index("-o") + 1] = str(self.folder / "halograd")
        libraries = next(i for i, word in enumerate(command) if word.endswith((".a", ".so")))
        command[libraries:libraries] = ["-Wl,--allow-multiple-definition", *map(str, objects)]
        run(command, BUILD)

    def train(self, ranks, *keys):
        """What one short training says as JSON."""
        settings = [word for key in ("training.epochs=2", *keys) for word in ("--set", key)]
        said = run([os.environ["HALOGRAD_MPIEXEC"], *os.environ["HALOGRAD_MPIEXEC_FLAGS"].split(), "-n", str(ranks), str(self.folder / "halograd"),
                    "train", str(ROOT / "inputs/digits.toml"), "--json", *settings], self.folder)
        return json.loads(said[said.index("{"):])

    def test_layer(self):
        self.add("layer", 3)
        for precision in ("fp32", "auto"):
            result = self.train(2, 'network.layer=[{type="flatten"}, {type="dense", channels=64}, {type="absolute"}, '
                                   '{type="dense", channels=10}]', f'training.precision="{precision}"', f"name={precision}")
            self.assertGreater(result["mean_model_accuracy"], 0.8)

    def test_averager(self):
        self.add("averager", 2)
        result = self.train(3, "averager.name=leader")
        self.assertGreater(result["mean_model_accuracy"], 0.8)
        self.assertGreater(result["consensus_distance"], 0)

    def test_topology(self):
        self.add("topology", 2)
        result = self.train(4, "topology.kind=wheel")
        self.assertGreater(result["mean_model_accuracy"], 0.8)

    def test_network(self):
        self.add("network", 2)
        result = self.train(2, "network={name='two_layers'}")
        self.assertGreater(result["mean_model_accuracy"], 0.8)

    def test_dataset(self):
        self.add("dataset", 2)
        with h5py.File(ROOT / "inputs/digits.h5", "r") as digits:
            for group in ("train", "test"):
                images, labels = digits[f"{group}/images"], digits[f"{group}/labels"]
                rows = np.column_stack([labels[()], 15 * images[()].reshape(len(labels), -1)])
                np.savetxt(self.folder / f"{group}.txt", rows, fmt="%d")
        result = self.train(2, "data.format=text", f"data.path={self.folder}")
        self.assertGreater(result["mean_model_accuracy"], 0.8)


if __name__ == "__main__":
    unittest.main()
