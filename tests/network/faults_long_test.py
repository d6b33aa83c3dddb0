#!/usr/bin/env python3
"""The same with every averager; a host that nobody waits for is cut off; a rank is killed."""

from fault_runs import BAD, RING, SHORT, FaultRuns
from lab_tests import main, read_metrics, sets

LOCKSTEP = {
    "allreduce": RING,
    "easgd": RING,
    "neighbour": [],
    "neighbour, by messages": sets(comm__transport="send"),
    "neighbour, adapt_then_combine": sets(averager__order="adapt_then_combine"),
    "push_sum": sets(topology__kind="exponential"),
    "gossip_grad": sets(topology__kind="one_peer_exponential"),
    "fast": [],
    "hierarchical": [],
}
FREE = {
    "none": [],
    "neighbour": sets(averager__staleness=-1),
    "ad_psgd": [],
    "push_sum": sets(averager__staleness=-1, topology__kind="exponential"),
    "fast": sets(averager__staleness=-1, optimizer__learning_rate=0.02),
}


def named(averager):
    return sets(averager__name=averager.partition(",")[0])


class Faults(FaultRuns):
    def test_a_cut_host(self):
        self.check_cut(*sets(averager__staleness=-1))

    def test_a_dead_rank(self):
        self.check_deaths()

    def test_a_slow_host_is_named(self):
        for averager, words in LOCKSTEP.items():
            with self.subTest(averager):
                print(averager)
                self.check_named(*named(averager), *words)

    def test_a_slow_host_is_passed_over(self):
        for averager, words in FREE.items():
            with self.subTest(averager):
                print(averager)
                self.check_passed_over(*named(averager), *words)

    def test_a_slow_host_has_used_up_the_patience(self):
        edge = self.check_passed_over(*sets(averager__patience=0.05))
        self.assertGreater(edge["left_out"][edge["from"] == BAD].sum(), 0)

    def test_waits_for_the_host_that_deals_are_booked(self):
        run = self.start_and_slow_down(*SHORT, *sets(averager__staleness=-1), bad=0)
        self.assertEqual(run.wait().status, 0, run.text())
        metrics = read_metrics(self.path("runs/digits/metrics.h5"))
        others = metrics["step/rank"] > 0
        waited, data = (metrics[f"step/{kind}_seconds"][others].sum() for kind in ("wait", "data"))
        images = metrics["epoch/images"][-1]
        print(f"the others have waited for {waited:.2f} s, for data {data:.2f} s; rank 0 trained on {images[0]} of the last "
              f"{images.sum()} images")
        self.assertGreater(waited, data)


if __name__ == "__main__":
    main()
