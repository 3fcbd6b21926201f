"""Which samples a training sees, in which order and rendering, packed into rows and batches."""
