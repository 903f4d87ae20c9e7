"""What the tests have in common."""

import tempfile
import unittest
from pathlib import Path

from .stage import Stage


class StagedTest(unittest.TestCase):
    """A test with a folder and processes of its own."""

    maxDiff = None

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="login-", ignore_cleanup_errors=True)
        self.folder = Path(self.enterContext(scratch))
        self.stage = self.enterContext(Stage(self.folder))
