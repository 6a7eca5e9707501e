import unittest

from shop.report import line


class Report(unittest.TestCase):
    def test_cents_have_two_digits(self):
        self.assertEqual(line("tea", 250), "tea: 2.50 EUR")
