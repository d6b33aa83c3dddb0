#!/usr/bin/env python3
"""halograd benchmark: its figures agree with each other and with the network, and bad arguments are refused."""

import os

from program import PROGRAM, SYNTHETIC, ProgramTest, execute, main

QUICK = ("--seconds", "0.05", "--threads", "1")


class Figures(ProgramTest):
    def measure(self, *words, ranks=0):
        return self.succeed_json("benchmark", *QUICK, *words, ranks=ranks)

    def test_lenet5_by_layer(self):
        result = self.measure("--network", "lenet5", "--batch", "4", "--layers")
        self.assertEqual(result["threads"], 1)
        self.assertGreater(result["fma_peak_flops"], 1e8)
        self.assertGreater(result["memory_bandwidth_bytes"], 1e8)
        (network,) = result["networks"]
        self.assertEqual((network["network"], network["batch"], network["input"]), ("lenet5", 4, "28x28x1"))
        self.assertEqual(network["parameters"], 431080)
        self.assertGreaterEqual(network["steps"], 5)
        self.assertAlmostEqual(network["images_per_second"] * network["step_seconds"], 4)
        self.assertLessEqual(network["fastest_step_seconds"], network["step_seconds"])
        self.assertLessEqual(network["step_seconds"], network["slowest_step_seconds"])
        self.assertGreater(network["peak_memory_bytes"], network["arena_bytes"])
        # twice the products of each layer, by hand; no gradient of the images is computed
        conv1, rest = 24 * 24 * 20 * 25, 8 * 8 * 50 * 25 * 20 + 800 * 500 + 500 * 10
        self.assertEqual(network["step_flops"], 4 * 2 * (2 * conv1 + 3 * rest))

        passes = {(row["layer"], row["pass"]): row for row in network["passes"]}
        self.assertEqual(len(passes), len(network["passes"]))
        self.assertEqual(sum(row["flops"] for row in passes.values()), network["step_flops"])
        total = sum(row["seconds"] for row in passes.values())
        self.assertAlmostEqual(total, network["timed_step_seconds"], delta=1e-9)
        forward, data = passes["conv2", "forward"], passes["conv2", "data"]
        self.assertEqual(forward["flops"], 4 * 2 * 8 * 8 * 50 * 25 * 20)
        self.assertEqual(forward["bytes"], 4 * (4 * (12 * 12 * 20 + 8 * 8 * 50) + 25 * 20 * 50 + 50))
        self.assertEqual((data["flops"], data["output"], data["type"]), (forward["flops"], "8x8x50", "conv + relu"))
        self.assertNotIn(("conv1", "data"), passes)
        self.assertEqual(passes["update", "update"]["bytes"], 4 * 5 * 431080)
        self.assertGreater(forward["seconds"], 0)

    def test_several_networks_and_a_launcher(self):
        result = self.measure("--network", "lenet5,resnet20", "--batch", "2", ranks=1)
        self.assertEqual([network["network"] for network in result["networks"]], ["lenet5", "resnet20"])
        self.assertNotIn("passes", result["networks"][0])

    def test_run_file(self):
        (network,) = self.measure("--config", SYNTHETIC, "--set", "training.batch=6", "--set",
                                  "optimizer.name=adam")["networks"]
        self.assertEqual(network["batch"], 6)
        self.assertEqual(network["input"], "8x8x1")

    def test_one_rank_of_a_group(self):
        """Each of the four ranks has a quarter of every image."""
        run = ("--config", SYNTHETIC, "--set", "training.batch=6")
        (whole,) = self.measure(*run)["networks"]
        (part,) = self.measure(*run, "--set", "parallel.spatial=[2,2]")["networks"]
        self.assertNotIn("group_bytes", whole)
        self.assertGreater(part["group_exchanges"], 2)
        self.assertGreater(part["group_bytes"], 2 * 4 * 0.75 * part["parameters"])  # its gradients out, its weights in
        self.assertLess(part["step_flops"], whole["step_flops"])
        self.assertEqual(part["parameters"], whole["parameters"])
        self.refuse("benchmark", *QUICK, *run, "--set", "parallel.spatial=[2,2,1]", ranks=1,
                    words=["parallel.spatial has 3 numbers, expected one for each of the 2 spatial axes"])

    def test_precision(self):
        for words in (("--network", "lenet5", "--batch", "2"), ("--config", SYNTHETIC)):
            for precision in ((), ("--precision", "fp32")):
                self.assertEqual(self.measure(*words, *precision)["networks"][0]["precision"], "fp32")

    def test_other_images(self):
        (network,) = self.measure("--network", "resnet20", "--input", "16x20x5", "--classes", "7", "--batch",
                                  "2")["networks"]
        self.assertEqual((network["input"], network["classes"]), ("16x20x5", 7))
        # 4 channels of images and 3 classes fewer than usual change the stem and the last layer alone
        usual = self.measure("--network", "resnet20", "--batch", "2")["networks"][0]["parameters"]
        self.assertEqual(network["parameters"], usual + 2 * 9 * 16 - 3 * 65)

    def test_table_for_people(self):
        out = self.succeed("benchmark", *QUICK, "--network", "lenet5", "--batch", "4", "--layers")
        for words in ("lenet5: 431080 parameters", "images/s: median of", "% of the FMA peak", "memory:", "conv2",
                      "weights", "total", "rest"):
            self.assertIn(words, out)


class Refusals(ProgramTest):
    def test_bad_arguments(self):
        for words, message in (
                (("--network", "lenet"), 'did you mean "lenet5"?'),
                (("--network", "lenet5,nothing_like_it"), "nothing_like_it: there is no such reference network"),
                ((), "--network or --config is needed"),
                (("--network", "lenet5", "--input", "28x28x"),
                 "--input is '28x28x', expected [[DEPTHx]HEIGHTx]WIDTHxCHANNELS"),
                (("--network", "lenet5", "--input", "3x3x1"), "conv1"),
                (("--config", "missing.toml"), "missing.toml")):
            self.refuse("benchmark", *words, words=[message], ranks=0)

    def test_precision_that_the_device_lacks(self):
        words = ['training.precision = "tf32" needs an NVIDIA device', 'expected "fp32" on OpenMP']
        self.refuse("benchmark", "--network", "lenet5", "--precision", "tf32", words=words, ranks=0)
        self.refuse("benchmark", "--config", SYNTHETIC, "--set", "training.precision=tf32", words=words, ranks=0)
        result = self.run_program("benchmark", "--network", "lenet5", "--precision", "fp64")
        self.assertGreater(result.status, 0)
        self.assertIn("--precision", result.err)

    def test_numbers_out_of_range(self):
        for words in (("--batch", "0"), ("--threads", "0"), ("--seconds", "0"), ("--classes", "1")):
            result = self.run_program("benchmark", "--network", "lenet5", *words)
            self.assertGreater(result.status, 0)
            self.assertIn(words[0], result.err)

    def test_too_large_for_the_memory(self):
        self.refuse("benchmark", "--network", "resnet18", "--batch", "100000000", "--threads", "1", ranks=0,
                    words=["100000000 images", "GB of memory are free"])

    def test_several_ranks(self):
        self.refuse("benchmark", "--network", "lenet5", ranks=2, words=["measures one process", "2 were started"])

    def test_more_threads_than_cores(self):
        result = self.run_program("benchmark", "--network", "lenet5", "--batch", "1", "--seconds", "0.01",
                                  "--threads", "9", environment={"OMP_WAIT_POLICY": "passive"})
        self.assertEqual(result.status, 0, result.err)
        if len(os.sched_getaffinity(0)) < 9:
            self.assertIn("warning: 9 threads on the", result.err)

    def test_threads_that_openmp_binds(self):
        """OpenMP has bound the first thread to a core before the program asks for its cores."""
        command = ["env", "-u", "OMP_NUM_THREADS", "-u", "SLURM_CPUS_PER_TASK", "OMP_PROC_BIND=close", PROGRAM, "benchmark",
                   "--network", "lenet5", "--batch", "1", "--seconds", "0.01"]
        result = execute(command, self.folder)
        self.assertEqual(result.status, 0, result.err)
        self.assertIn(f"OpenMP with {len(os.sched_getaffinity(0))} thread", result.out)
        self.assertNotIn("warning", result.err)


if __name__ == "__main__":
    main()
