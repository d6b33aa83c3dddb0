"""The rules hold for this tree, and each of them is able to find its violation."""

import pathlib
import tempfile
import unittest

import rules

ROOT = pathlib.Path(__file__).resolve().parents[2]


class ThisTree(unittest.TestCase):
    def test_keeps_the_rules(self):
        self.assertEqual("", "\n".join(rules.check_tree(ROOT)))

    def test_is_looked_at(self):
        paths = rules.files(ROOT, rules.CODE_FOLDERS, rules.CODE_ENDINGS)
        self.assertIn("kernels/types.hpp", paths)
        self.assertIn("lib/graph/topology.hpp", paths)


class Violations(unittest.TestCase):
    """Each test makes a small tree with one wrong line."""

    def complaints(self, **changed):
        """What check_tree says of a sound tree after writing `changed` (path with / as __, .hpp unless it ends in _cpp -> text)."""
        sound = {
            "kernels/types.hpp": "#pragma once\n#include <Kokkos_Core.hpp>\n",
            "lib/config/config.hpp": "#pragma once\n",
            "lib/window/window.hpp": '#pragma once\n#include <mpi.h>\n#include "kernels/types.hpp"\n',
            "lib/nn/layer.hpp": '#pragma once\n#include "config/config.hpp"\n',
            "lib/train/trainer.hpp": '#pragma once\n#include "nn/layer.hpp"\n#include "window/window.hpp"\n',
            "lib/train/trainer.cpp": '#include "train/trainer.hpp"\n\n#include <vector>\n',
            "app/main.cpp": '#include "train/trainer.hpp"\n',
        }
        for name, text in changed.items():
            path = name.replace("__", "/")
            sound[path[:-len("_cpp")] + ".cpp" if path.endswith("_cpp") else path + ".hpp"] = text
        with tempfile.TemporaryDirectory() as folder:
            for path, text in sound.items():
                file = pathlib.Path(folder, path)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")
            return rules.check_tree(folder)

    def assert_found(self, complaints, *words):
        self.assertEqual(1, len(complaints), complaints)
        for word in words:
            self.assertIn(word, complaints[0])

    def test_a_sound_tree_has_none(self):
        self.assertEqual([], self.complaints())

    def test_side_by_side_folders_include_each_other(self):
        found = self.complaints(lib__nn__layer='#pragma once\n\n#include "data/loader.hpp"\n', lib__data__loader="#pragma once\n")
        self.assert_found(found, "lib/nn/layer.hpp:3", "nn may not include data")

    def test_a_floor_includes_one_above(self):
        found = self.complaints(lib__window__window='#pragma once\n#include "nn/layer.hpp"\n')
        self.assert_found(found, "window may not include nn")

    def test_kernels_include_the_host_side(self):
        found = self.complaints(kernels__types='#pragma once\n#include "config/config.hpp"\n')
        self.assert_found(found, "kernels may not include config")

    def test_library_includes_the_program(self):
        found = self.complaints(lib__train__trainer='#pragma once\n#include "app/options.hpp"\n', app__options="#pragma once\n")
        self.assert_found(found, "train may not include app")

    def test_a_test_without_its_own_namespace(self):
        sound = "namespace halograd::layer_test {\nnamespace {\n"
        self.assertEqual([], self.complaints(tests__nn__layer_test_cpp=sound))
        found = self.complaints(tests__nn__layer_test_cpp="namespace halograd {\nnamespace {\n")
        self.assert_found(found, "tests/nn/layer_test.cpp", "halograd::layer_test")

    def test_mpi_outside_its_places(self):
        for folder in ("lib/nn", "lib/io", "lib/hdf5", "lib/train", "app"):
            found = self.complaints(**{folder.replace("/", "__") + "__file": "#pragma once\n#include <mpi.h>\n"})
            self.assert_found(found, "<mpi.h>", f"{folder}/file.hpp:2")

    def test_hdf5_outside_its_places(self):
        self.assert_found(self.complaints(lib__train__trainer="#pragma once\n#include <hdf5.h>\n"), "<hdf5.h>")
        self.assert_found(self.complaints(lib__data__idx="#pragma once\n#include <H5Fpublic.h>\n"), "<H5Fpublic.h>")
        self.assertEqual([], self.complaints(lib__hdf5__handles="#pragma once\n#include <hdf5.h>\n"))

    def test_toml_outside_its_places(self):
        self.assert_found(self.complaints(lib__config__config="#pragma once\n#include <toml.hpp>\n"), "<toml.hpp>")

    def test_backend_named_outside_kernels(self):
        text = "#pragma once\nusing Space = Kokkos::OpenMP;\n"
        self.assert_found(self.complaints(lib__nn__layer=text), "Kokkos::OpenMP")
        self.assertEqual([], self.complaints(kernels__types=text))
        self.assert_found(self.complaints(lib__nn__layer="#pragma once\n#ifdef KOKKOS_ENABLE_CUDA\n#endif\n"), "KOKKOS_ENABLE_CUDA")

    def test_version_asked_outside_compat(self):
        text = "#pragma once\n#if KOKKOS_VERSION >= 40000\n#endif\n"
        self.assert_found(self.complaints(kernels__types=text), "KOKKOS_VERSION")
        self.assertEqual([], self.complaints(kernels__compat=text))

    def test_comparison_with_a_literal(self):
        text = '#include "nn/layer.hpp"\n\nbool is_ring(const Config& c) { return c.kind == "ring"; }\n'
        self.assert_found(self.complaints(lib__nn__layer_cpp=text), "lib/nn/layer.cpp:3", "string literal")
        self.assert_found(self.complaints(lib__nn__layer_cpp=text.replace("==", "!=")), "lib/nn/layer.cpp:3")
        self.assertEqual([], self.complaints(lib__nn__layer_cpp=text.replace("return", "//")))
        self.assertEqual([], self.complaints(lib__convert__safetensors_cpp=text))

    def test_doubled_helper(self):
        text = "namespace {\n\nstd::string text_of(const Path& path) {\n  std::ifstream file(path);\n  file >> text;\n  return text;\n}\n\n}\n"
        first = '#include "nn/layer.hpp"\n' + text
        self.assertEqual([], self.complaints(lib__nn__layer_cpp=first, app__main_cpp=text.replace("  file >> text;\n", "")))
        self.assertEqual([], self.complaints(lib__nn__layer_cpp=first, app__main_cpp=text.replace(">>", "<<")))
        doubled = text.replace("text_of", "read_text").replace("file >> text;", "  file  >>  text;  // all of it")
        self.assert_found(self.complaints(lib__nn__layer_cpp=first, app__main_cpp=doubled), "app/main.cpp:3: read_text",
                          "text_of (lib/nn/layer.cpp:4)")

    def test_comments_do_not_count(self):
        self.assertEqual([], self.complaints(lib__nn__layer="#pragma once\n// not Kokkos::OpenMP\n/* #include\n<mpi.h> */\n"))

    def test_unknown_and_relative_includes(self):
        self.assert_found(self.complaints(lib__nn__layer='#pragma once\n#include "layers.hpp"\n'), "layers.hpp")
        self.assert_found(self.complaints(lib__nn__layer='#pragma once\n#include "../window/window.hpp"\n'), "../window")

    def test_missing_guard(self):
        self.assert_found(self.complaints(lib__config__config="struct Config {};\n"), "#pragma once")

    def test_own_header_not_first(self):
        found = self.complaints(lib__train__trainer_cpp='#include <vector>\n\n#include "train/trainer.hpp"\n')
        self.assert_found(found, "lib/train/trainer.cpp", "own header")
        self.assert_found(self.complaints(lib__train__trainer_cpp="int x;\n"), "own header")

    def test_circle(self):
        found = self.complaints(lib__nn__layer='#pragma once\n#include "nn/node.hpp"\n',
                                lib__nn__node='#pragma once\n#include "nn/layer.hpp"\n')
        self.assert_found(found, "circle", "lib/nn/layer.hpp -> lib/nn/node.hpp -> lib/nn/layer.hpp")


if __name__ == "__main__":
    unittest.main()
