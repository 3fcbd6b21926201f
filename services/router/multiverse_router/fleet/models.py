"""Models as workers serve them, read once for each set of files.

Knows the worker's files and their digest; must not know streams.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_protos.engine.v1.engine_pb2_grpc import EngineServiceStub
from multiverse_router.model import ServedModel, servable
from multiverse_router.settings import RouterSettings
from multiverse_shared.errors import InvalidModel

MOST_KEPT = 16  # sets of files, the last ones seen


class Models:
    """`digest_of` gives the digest that workers of a model must have; None: any may come."""

    def __init__(
        self, settings: RouterSettings, digest_of: Callable[[str], str | None] = lambda name: None
    ) -> None:
        self._positions = settings.positions
        self._history = settings.largest_limits
        self._digest_of = digest_of
        self._kept: dict[str, ServedModel] = {}  # by digest

    async def of(self, stub: EngineServiceStub) -> ServedModel:
        """The model of a worker. InvalidModel when it can't be served, or not beside the others."""
        info = await stub.GetModelInfo(pb.GetModelInfoRequest())
        wanted = self._digest_of(info.model)
        if wanted is not None and wanted != info.files_digest:
            raise InvalidModel(
                f"other workers serve {info.model} with other files (digest {wanted:.12}, not "
                f"{info.files_digest:.12}); serve it under another name, or end those first"
            )
        model = self._known(info)
        if model is None:
            model = ServedModel.of(info, await _files(stub), self._positions, self._history)
            self._keep(model)
        return model

    def _known(self, info: pb.GetModelInfoResponse) -> ServedModel | None:
        """The model made of the same files, with the sizes of this worker."""
        known = self._kept.get(info.files_digest)
        if known is None or known.name != info.model or known.vocab_size != info.vocab_size:
            return None
        servable(known.grammar.dialect, info, self._positions)
        return replace(
            known,
            namespace=info.namespace,
            context_length=info.context_length,
            kv_cells=info.kv_cells,
        )

    def _keep(self, model: ServedModel) -> None:
        if model.digest:
            self._kept.pop(model.digest, None)
            self._kept[model.digest] = model
            while len(self._kept) > MOST_KEPT:
                del self._kept[next(iter(self._kept))]


async def _files(stub: EngineServiceStub) -> dict[str, bytes]:
    files: dict[str, bytearray] = {}
    chunks: AsyncIterator[pb.GetModelFilesResponse] = stub.GetModelFiles(pb.GetModelFilesRequest())
    async for chunk in chunks:
        files.setdefault(chunk.name, bytearray()).extend(chunk.data)
    return {name: bytes(data) for name, data in files.items()}
