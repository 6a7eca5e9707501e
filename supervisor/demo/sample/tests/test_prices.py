import unittest

from shop.prices import discounted


class Prices(unittest.TestCase):
    def test_a_tenth_off(self):
        self.assertEqual(discounted(2000, 10), 1800)
