"""The tiny model: generated tasks, its vocabulary and a training that two CPU cores can bear."""
