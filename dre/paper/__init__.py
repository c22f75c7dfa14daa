"""What the notebooks need, and the runner that executes them: ``python -m dre.paper``."""
