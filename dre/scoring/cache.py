"""Embeddings kept from block to block, the least recently used dropped first."""

from collections import OrderedDict


class Embeddings:
    """At most ``limit`` embeddings by text: with 384 dimensions, 20,000 of them take about 40 MB.

    Parameters
    ----------
    limit : int
    """

    def __init__(self, limit=20_000):
        self.limit, self._kept = limit, OrderedDict()

    def __len__(self):
        return len(self._kept)

    def find(self, texts):
        """Return {text: (d,) tensor} of the texts that are kept."""
        found = {text: self._kept[text] for text in texts if text in self._kept}
        for text in found:
            self._kept.move_to_end(text)
        return found

    def keep(self, texts, embeddings):
        """Keep the rows of an (n, d) tensor under their texts."""
        for text, row in zip(texts, embeddings.cpu()):
            self._kept[text] = row.clone()  # a view would hold the whole block
            self._kept.move_to_end(text)
        while len(self._kept) > self.limit:
            self._kept.popitem(last=False)
