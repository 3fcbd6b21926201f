"""A fleet whose parts are killed, frozen and cut while answers run."""
