"""A ceiling on money that holds while many calls are in flight."""

import asyncio
import math


class Budget:
    """Reserve the most a call can cost before it is made; settle for what it did cost.

    Spent plus reserved never exceeds ``max_usd``, so the ceiling is not passed whatever the replies cost.

    Parameters
    ----------
    max_usd : float
        Infinite for no ceiling.
    """

    def __init__(self, max_usd=math.inf):
        self.max_usd = max_usd
        self.spent = 0.0
        self.reserved = 0.0
        self._flying = 0
        self._settled = asyncio.Event()

    async def reserve(self, usd):
        """Reserve an amount; wait if calls in flight may yet leave enough.

        Returns
        -------
        bool
            False if the amount cannot be had even when nothing is in flight.
        """
        while self.spent + self.reserved + usd > self.max_usd:
            if self.spent + usd > self.max_usd or not self._flying:
                return False
            await self._settled.wait()
        self.reserved += usd
        self._flying += 1
        return True

    def settle(self, reserved, spent):
        """Give back a reservation and book what was spent."""
        self._flying -= 1
        self.reserved = max(0.0, self.reserved - reserved) if self._flying else 0.0
        self.spent += spent
        self._settled.set()
        self._settled = asyncio.Event()
