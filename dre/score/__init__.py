"""Scoring the responses of one's own systems: `dre.score.api.DRE`, ``dre score`` and ``dre calibrate``."""
