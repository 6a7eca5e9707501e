import unittest

from shop.stock import enough


class Stock(unittest.TestCase):
    def test_the_last_piece_can_be_sold(self):
        self.assertTrue(enough({"tea": 1}, "tea", 1))

    def test_what_is_not_listed_is_not_there(self):
        self.assertFalse(enough({}, "tea", 1))
