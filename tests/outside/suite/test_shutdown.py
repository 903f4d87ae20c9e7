"""The end of the run: Mainstay stops when asked, and nothing it started outlives it."""

from .check import Check
from .stage import Stage


class Shutdown(Check):
    client = "signal"

    def test_mainstay_stops_and_leaves_nothing(self):
        self.stage.hang_up()
        for name, code in self.stage.stop_daemons().items():
            self.assertEqual(0, code, self.stage.log(name))
        self.assertEqual({}, self.stage.survivors())


def tests(stage: Stage):
    return [Shutdown("test_mainstay_stops_and_leaves_nothing", stage, stage.doors[0])]
