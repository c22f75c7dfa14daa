"""One training step shared out among processes, equal to the step one process would take.

Terms with in-batch negatives, and means over contexts with different numbers of triplets, are not the mean of what
each process finds on a part of the batch. So every process draws the same batch, encodes its share of the texts, is
given the embeddings of all others, and computes the loss of the whole batch. ``batch_contexts`` of a recipe is
therefore the batch of all processes together, and any number of processes gives the same step up to rounding (and
up to which random numbers dropout draws).
"""

import torch
import torch.distributed as dist
from sentence_transformers.base.sampler import DefaultBatchSampler
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import RandomSampler

from dre.slm import distributed
from dre.slm.objective import Objective

EMBEDDINGS = ("sentence_embedding", "anchor", "robust", "non_robust")


class SharedObjective(Objective):
    """The objective over a batch of which each process encodes a share."""

    def _encode(self, chunk, frozen):
        n = len(chunk["attention_mask"])
        own = share(n)
        part = {key: value[own] if torch.is_tensor(value) else value for key, value in chunk.items()}
        out = super()._encode(part, frozen)
        return {key: None if out[key] is None else gather(out[key])[:n] for key in EMBEDDINGS}


def share(n):
    """Return which of n rows this process takes: every size-th, as many in each process.

    Where n does not divide, row 0 fills up; :func:`gather` puts such rows behind the n others.
    """
    rows = range(distributed.rank(), -(-n // distributed.size()) * distributed.size(), distributed.size())
    return torch.tensor([row if row < n else 0 for row in rows])


def gather(own):
    """Return the rows of all processes, (k, d) -> (size k, d), in the order :func:`share` dealt them."""
    return _Gather.apply(own)


class _Gather(torch.autograd.Function):
    """Every process computes the same loss of the gathered rows, so each knows the gradient of its own rows.

    ``DistributedDataParallel`` divides gradients by the number of processes. For a parameter used after gathering
    (the classifier) that is right, for all find its whole gradient; before it, each finds but its share, which
    is therefore multiplied here.
    """

    @staticmethod
    def forward(ctx, own):
        parts = [torch.empty_like(own) for _ in range(distributed.size())]
        dist.all_gather(parts, own.contiguous())
        return torch.stack(parts, dim=1).flatten(0, 1)

    @staticmethod
    def backward(ctx, gradient):
        return gradient[distributed.rank() :: distributed.size()] * distributed.size()


class SameBatches(DefaultBatchSampler):
    """Every batch as often as there are processes: the trainer deals batches out in turn, so all get the same one.

    The last, smaller batch is kept whatever ``drop_last`` says, for it is the same size in every process.
    """

    def __init__(self, dataset, batch_size, drop_last, generator=None, **options):
        super().__init__(RandomSampler(dataset, generator=generator), batch_size, False, generator=generator, **options)

    def __iter__(self):
        """Yield each batch once for every process."""
        for batch in super().__iter__():
            yield from [batch] * distributed.size()

    def __len__(self):
        return super().__len__() * distributed.size()


class SharedTrainer:
    """Mixin for a Sentence-Transformers trainer whose loss is a :class:`SharedObjective`."""

    def _wrap_model(self, model, training=True, dataloader=None):
        """Synchronise gradients around the whole objective instead of around the model.

        A wrapped model synchronises what happens in its ``forward``; a stage that trains the head alone, and the
        classifier always, are used outside it and would be left out in silence.
        """
        if not training:
            return model
        self.accelerator.prepare_model(self.model, evaluation_mode=True)  # device and autocast
        # An encoder may have parameters that are not used, such as those of a pooling layer of its own.
        self.loss = DistributedDataParallel(self.loss, find_unused_parameters=True)
        return self.loss
