"""Search in torch, batched over queries, with the index in the memory of the device.

The stages are those of `cpu/search.py`, in floats: cell scores, evidence from the probed cells, pruning by centroids,
the focused score over restored vectors.  There is no refining stage.  If memory allows, vectors are restored once, when
the index is loaded, and cached as float16; otherwise for every search.  A residual depends on its references, so all
vectors of a passage, or their scores, are restored together, in as many rounds as the longest chain of references.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from baleen.core.progress import progress
from baleen.core.vectors import QueryVectors
from baleen.index.codec.codec import Codec, unpack_streams
from baleen.index.codec.residuals import CODEWORDS
from baleen.index.cpu.search import Limits, ScoredRows
from baleen.index.protocol import Focus
from baleen.index.scoring import focus
from baleen.index.segment import Segment

Array = npt.NDArray[Any]

# Passages, and vectors with padding, that are scored together: enough to keep a GPU busy.
PASSAGES_AT_ONCE, VECTORS_AT_ONCE = 2**14, 2**20
# Limits of a batch of queries: bytes of their cell scores, and postings of their probed cells, about 64 bytes each.
CELL_SCORE_BUDGET, POSTINGS_AT_ONCE = 2**31, 2**26
MATCHES_AT_ONCE = 2**29  # vectors x lanes that are compared together
CACHE_SHARE = 0.4  # share of a GPU's free memory that cached vectors may take


@dataclass(frozen=True, eq=False)
class Batch:
    """Queries side by side, (queries, lanes, width): the claims' vectors first, then the facts', both padded."""

    vectors: Tensor
    mask: Tensor  # (queries, lanes) bool
    counts: tuple[tuple[int, int], ...]  # vectors of each query's claim and facts
    claim: int  # lanes of the claim
    focus: Focus

    @classmethod
    def of(cls, queries: Sequence[QueryVectors], codec: Codec, focus: Focus, device: str) -> Batch:
        """Map queries into the codec's space and pad them."""
        counts = tuple((len(query.query), len(query.facts)) for query in queries)
        claim, facts = (max(column) for column in zip(*counts, strict=True))
        vectors = np.zeros((len(queries), claim + facts, queries[0].dim), np.float32)
        mask = np.zeros(vectors.shape[:2], np.bool_)
        for number, query in enumerate(queries):
            for part, first in ((query.query, 0), (query.facts, claim)):
                vectors[number, first : first + len(part)] = part
                mask[number, first : first + len(part)] = True
        mapped = codec.map_queries(vectors.reshape(-1, vectors.shape[-1])).reshape(*mask.shape, codec.width)
        return cls(torch.from_numpy(mapped).to(device), torch.from_numpy(mask).to(device), counts, claim, focus)

    def lanes_of(self, query: int, lanes: Tensor) -> Tensor:
        """Rows of one query without padding, from values for all lanes (lanes, ...): its claim's, then its facts'."""
        claim, facts = self.counts[query]
        return torch.cat([lanes[:claim], lanes[self.claim : self.claim + facts]])

    def focused(self, query: int, matches: Tensor) -> Tensor:
        """(n, lanes of one query) best matches -> (n,) focused scores."""
        claim = self.counts[query][0]
        return focus(matches[:, :claim], self.focus[0]) + focus(matches[:, claim:], self.focus[1])

    def focused_all(self, matches: Tensor) -> Tensor:
        """(n, queries * lanes) best matches of all queries -> (n, queries) focused scores."""
        matches = matches.view(len(matches), *self.mask.shape)
        parts = ((slice(None, self.claim), self.focus[0]), (slice(self.claim, None), self.focus[1]))
        claim, facts = (focus(matches[..., lanes], keep, self.mask[:, lanes]) for lanes, keep in parts)
        return claim + facts


class DeviceSearcher:
    """Search with all segments on one device; rows are numbered through, segment after segment.

    `cache_vectors`: hold restored vectors too, two bytes a dimension (None: on a GPU with room for them).
    """

    def __init__(
        self, codec: Codec, segments: Sequence[Segment], device: str, *, cache_vectors: bool | None = None
    ) -> None:
        self.codec, self.device = codec, device
        self.starts = np.cumsum([0] + [len(segment) for segment in segments])
        self.centroids = self._to_device(codec.float_centroids[: codec.cells])
        zero_codeword = np.zeros_like(codec.float_codebooks[:, :, :1])  # for layers that a vector lacks
        self.codebooks = self._to_device(np.concatenate([codec.float_codebooks, zero_codeword], axis=2))
        self.codes = self._join([segment.codes.astype(np.int32) for segment in segments], np.int32)
        self.lengths = self._join([np.diff(segment.offsets) for segment in segments], np.int64)
        self.firsts = self.lengths.cumsum(0) - self.lengths
        self._load_postings(segments)
        self._load_residuals(segments)
        self.vectors: Tensor | None = None
        if codec.bits == 16:
            self.vectors = self._join([s.vectors for s in segments if s.vectors is not None], np.float16)
        elif cache_vectors or (cache_vectors is None and self._fits_in_memory()):
            self.vectors = self._restore_vectors()
            del self.residuals, self.layers, self.references, self.positions

    def find(
        self,
        queries: Sequence[QueryVectors],
        k: int,
        limits: Limits | None,
        focus: Focus,
        allowed: list[list[Array]],
    ) -> list[ScoredRows]:
        """At least the k best allowed passages of each query; without limits, score all of them."""
        if not len(self.starts) - 1:
            return [ScoredRows.join([])] * len(queries)
        size = self._batch_size(queries, limits)
        found = []
        for start in range(0, len(queries), size):
            batch = Batch.of(queries[start : start + size], self.codec, focus, self.device)
            masks = [np.concatenate(rows) for rows in allowed[start : start + size]]
            found += self._find_batch(batch, k, limits, masks)
        return found

    @torch.inference_mode()
    def score_rows(
        self, queries: Sequence[QueryVectors], focus: Focus, wanted: Sequence[ScoredRows]
    ) -> list[ScoredRows]:
        """Score given rows for each query, as a search would."""
        found = list(wanted)
        for number, (query, own) in enumerate(zip(queries, wanted, strict=True)):
            if len(own):
                batch = Batch.of([query], self.codec, focus, self.device)
                rows = torch.from_numpy(self.starts[own.segments] + own.rows).to(self.device)
                found[number] = self._scored_rows(rows, self._score(batch, 0, rows))
        return found

    def _batch_size(self, queries: Sequence[QueryVectors], limits: Limits | None) -> int:
        """Number of queries per batch, assuming that every cell holds the mean number of passages."""
        lanes = max((len(query.query) + len(query.facts) for query in queries), default=1)
        size = CELL_SCORE_BUDGET // (4 * lanes * self.codec.cells)
        if limits is not None:
            visited = max((limits.probes_of(len(query.query)) * len(query.query) for query in queries), default=1)
            size = min(size, POSTINGS_AT_ONCE * self.codec.cells // max(1, visited * len(self.postings)))
        return max(1, size)

    @torch.inference_mode()
    def _find_batch(self, batch: Batch, k: int, limits: Limits | None, allowed: list[Array]) -> list[ScoredRows]:
        """`find` for one batch, with one mask over all rows for each query."""
        if limits is None or max(int(mask.sum()) for mask in allowed) <= limits.refined:
            return self._score_all(batch, allowed)
        found = self._search_batch(batch, limits, allowed)
        for query, mask in enumerate(allowed):
            if len(found[query]) < min(k, int(mask.sum())):  # the probed cells held too few passages
                rows = torch.from_numpy(np.flatnonzero(mask)).to(self.device)
                found[query] = self._scored_rows(rows, self._score(batch, query, rows))
        return found

    def _search_batch(self, batch: Batch, limits: Limits, allowed: list[Array]) -> list[ScoredRows]:
        """Gather, prune and score, for each query."""
        scores = batch.vectors @ self.centroids.T  # (queries, lanes, cells)
        evidence = self._gather(scores[:, : batch.claim], batch.mask[:, : batch.claim], limits)
        found = []
        for query in range(len(scores)):
            mask = torch.from_numpy(allowed[query]).to(self.device)
            gathered = torch.where(mask, evidence[query], 0.0)
            rows = gathered.topk(min(limits.candidates, len(gathered))).indices
            rows = rows[gathered[rows] > 0]
            pruned = self._prune(batch, query, scores[query], rows)
            rows = rows[pruned.topk(min(limits.refined, len(rows))).indices]
            found.append(self._scored_rows(rows, self._score(batch, query, rows)))
        return found

    def _score_all(self, batch: Batch, allowed: list[Array]) -> list[ScoredRows]:
        """Score every allowed passage, restoring its vectors once for all queries."""
        masks = np.stack(allowed)
        allowed_rows = np.flatnonzero(masks.any(axis=0))
        rows = torch.from_numpy(allowed_rows).to(self.device)
        lanes = batch.vectors.flatten(0, 1).T  # (width, queries * lanes)

        def score(tokens: Tensor) -> Tensor:
            return batch.focused_all((self._vectors(tokens) @ lanes).amax(dim=1))

        scores = self._score_in_parts(rows, score, lanes.shape[1], len(masks))
        masks_by_query = [torch.from_numpy(mask[allowed_rows]).to(self.device) for mask in masks]
        return [self._scored_rows(rows[kept], scores[kept, query]) for query, kept in enumerate(masks_by_query)]

    def _gather(self, scores: Tensor, mask: Tensor, limits: Limits) -> Tensor:
        """Evidence (queries, passages): the sum over lanes of a passage's best gain.

        The gain of a probed cell is its score less that of the worst cell that the lane probes.
        """
        queries, lanes, cells = scores.shape
        probes = [min(limits.probes_of(count), cells) for count in mask.sum(dim=1).tolist()]
        best = scores.topk(max(probes), dim=2)
        last = torch.tensor(probes, device=self.device)[:, None, None] - 1
        worst = best.values.gather(2, last.expand(-1, lanes, -1))
        probed = mask[:, :, None] & (torch.arange(max(probes), device=self.device) <= last)
        kept = probed.flatten().nonzero()[:, 0]  # lanes of long queries probe fewer cells, padded ones none
        gains = (best.values - worst + 1e-4).flatten()[kept]
        probed_cells = best.indices.flatten()[kept]
        owner = torch.arange(queries * lanes, device=self.device).repeat_interleave(best.indices.shape[2])[kept]
        lists = self.cell_ends[probed_cells] - self.cell_starts[probed_cells]
        visits = torch.repeat_interleave(torch.arange(len(probed_cells), device=self.device), lists)
        inside = torch.arange(len(visits), device=self.device) - (lists.cumsum(0) - lists)[visits]
        passages = self.postings[self.cell_starts[probed_cells][visits] + inside].long()
        total = int(self.starts[-1])
        # A stable sort keeps a lane's cells best first, so the first visit of a passage counts.
        keys, order = (owner[visits] * total + passages).sort(stable=True)
        first = torch.ones_like(keys, dtype=torch.bool)
        first[1:] = keys[1:] != keys[:-1]
        keys, order = keys[first], order[first]
        evidence = torch.zeros(queries * total, device=self.device)
        evidence.index_add_(0, keys // (lanes * total) * total + keys % total, gains[visits[order]])
        return evidence.view(queries, total)

    def _prune(self, batch: Batch, query: int, scores: Tensor, rows: Tensor) -> Tensor:
        """(n,) focused scores of passages, every token taken for its centroid."""
        by_cell = batch.lanes_of(query, scores).T.contiguous()  # (cells, own lanes)
        if by_cell.is_cuda:
            by_cell = by_cell.half()  # the cost is reading memory

        def score(tokens: Tensor) -> Tensor:
            return batch.focused(query, by_cell[self.codes[tokens].long()].amax(dim=1).float())  # (n, lanes)

        return self._score_in_parts(rows, score, by_cell.shape[1])

    def _score(self, batch: Batch, query: int, rows: Tensor) -> Tensor:
        """(n,) focused scores of passages over their restored vectors."""
        lanes = batch.lanes_of(query, batch.vectors[query]).T  # (width, own lanes)
        matches = self._cached_matches(lanes) if self.vectors is not None else self._restored_matches(lanes)
        return self._score_in_parts(
            rows, lambda tokens: batch.focused(query, matches(tokens).amax(dim=1)), lanes.shape[1]
        )

    def _cached_matches(self, lanes: Tensor) -> Callable[[Tensor], Tensor]:
        return lambda tokens: self._vectors(tokens) @ lanes

    def _restored_matches(self, lanes: Tensor) -> Callable[[Tensor], Tensor]:
        """Matches (n, tokens, lanes) without restoring vectors, which have more dimensions than a query has lanes."""
        by_cell = self.centroids @ lanes  # (cells, lanes)
        return lambda tokens: (
            by_cell[self.codes[tokens].long()] + self._restore_residuals(tokens, self._sum_layers(tokens) @ lanes)
        )

    def _score_in_parts(self, rows: Tensor, score: Callable[[Tensor], Tensor], lanes: int, *each: int) -> Tensor:
        """(n, *each) scores of rows, from `score` of their tokens; `lanes` bounds the memory of a part."""
        scores = torch.zeros((len(rows), *each), device=self.device)
        for part, tokens in self._parts(rows, min(VECTORS_AT_ONCE, MATCHES_AT_ONCE // lanes)):
            scores[part] = score(tokens)
        return scores

    def _parts(self, rows: Tensor, vectors: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Split rows into parts of at most `vectors` tokens (or one passage): positions in `rows`, and their tokens.

        Passages of similar length go together to save padding.
        """
        lengths, order = self.lengths[rows].sort()
        longest = lengths.tolist()  # synchronizes once
        first = 0
        while first < len(longest):
            last = min(first + PASSAGES_AT_ONCE, len(longest))
            while last > first + 1 and (last - first) * longest[last - 1] > vectors:
                last = first + (last - first) // 2
            part = order[first:last]
            yield part, self._tokens(rows[part], longest[last - 1])
            first = last

    def _tokens(self, rows: Tensor, longest: int) -> Tensor:
        """(n, longest) positions of the vectors of passages.

        A shorter passage repeats its first vector, which has no references and so changes no maximum.
        """
        steps = torch.arange(longest, device=self.device)[None]
        return self.firsts[rows][:, None] + torch.where(steps < self.lengths[rows][:, None], steps, 0)

    def _vectors(self, tokens: Tensor) -> Tensor:
        """(n, tokens, width) float32: all vectors of n passages, in the mapped space."""
        if self.vectors is None:
            return self.centroids[self.codes[tokens].long()] + self._restore_residuals(tokens, self._sum_layers(tokens))
        cached = self.vectors[tokens].float()
        return torch.nn.functional.pad(cached, (0, self.codec.width - cached.shape[-1]))

    def _restore_residuals(self, tokens: Tensor, own: Tensor) -> Tensor:
        """Residuals (n, tokens, ...), or their scores, from the layers of each vector (`own`) and its references."""
        references = self.references[tokens].long()  # (n, tokens, 2)
        none = torch.zeros_like(own[:, :1])
        passages = torch.arange(len(tokens), device=self.device)[:, None]
        restored = own
        for _ in range(self.max_depth):
            with_none = torch.cat([none, restored], dim=1)
            restored = own + (with_none[passages, references[..., 0]] + with_none[passages, references[..., 1]]) / 2
        return restored

    def _fits_in_memory(self) -> bool:
        """Whether restored vectors fit on the GPU beside everything else."""
        if torch.device(self.device).type != "cuda":
            return False
        free, _ = torch.cuda.mem_get_info(self.device)
        # torch can reuse what it has reserved but not allocated
        free += torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)
        return 2 * self.codec.width * len(self.codes) <= CACHE_SHARE * free

    @torch.inference_mode()
    def _restore_vectors(self) -> Tensor:
        """All vectors, restored: (vectors, width) float16."""
        vectors = torch.empty((len(self.codes), self.codec.width), dtype=torch.float16, device=self.device)
        everything = torch.arange(len(self.lengths), device=self.device)
        with progress("restoring vectors", total=len(everything), unit="passages") as bar:
            for part, tokens in self._parts(everything, VECTORS_AT_ONCE):
                vectors[tokens] = self._vectors(tokens).half()
                bar.advance(len(part))
        return vectors

    def _sum_layers(self, tokens: Tensor) -> Tensor:
        """(..., width): the sum of the codewords of each vector's layers."""
        subspaces = torch.arange(self.codec.subspaces, device=self.device)
        missing = self.codec.layers - self.layers[tokens].long()  # layers that a vector lacks, the coarsest ones
        total = torch.zeros((*tokens.shape, self.codec.width), device=self.device)
        for layer in range(self.codec.layers):
            has = missing <= layer
            first = self.positions[tokens] + (layer - missing) * self.codec.subspaces
            positions = torch.where(has, first, 0)[..., None] + subspaces
            codes = torch.where(has[..., None], self.residuals[positions].long(), CODEWORDS)
            total += self.codebooks[layer][subspaces, codes].flatten(-2)
        return total

    def _scored_rows(self, rows: Tensor, scores: Tensor) -> ScoredRows:
        """Rows of the device as rows of segments."""
        numbers = rows.cpu().numpy()
        segments = np.searchsorted(self.starts, numbers, side="right") - 1
        return ScoredRows(segments, numbers - self.starts[segments], scores.float().cpu().numpy())

    def _load_residuals(self, segments: Sequence[Segment]) -> None:
        """Streams end to end, and the layers, references and stream position of every vector."""
        spare = np.zeros(self.codec.subspaces, np.uint8)  # read but unused for layers that a vector lacks
        self.residuals = self._join([*(segment.residuals for segment in segments), spare], np.uint8)
        self.max_depth = 0
        parts, first = [], 0
        for segment in segments if self.codec.layers else ():
            layers, references, positions, max_depth = unpack_streams(
                segment.offsets, segment.residuals, segment.residual_offsets, self.codec.subspaces
            )
            positions += first
            parts.append((layers, references, positions))
            self.max_depth, first = max(self.max_depth, max_depth), first + len(segment.residuals)
        columns = zip(*parts, strict=True) if parts else ((), (), ())
        self.layers, self.references, self.positions = (
            self._join(list(column), kind) for column, kind in zip(columns, (np.uint8, np.uint8, np.int64), strict=True)
        )

    def _load_postings(self, segments: Sequence[Segment]) -> None:
        """One inverted file over all segments: cell_starts and cell_ends (cells,) into postings."""
        if not segments:
            return
        cells = np.concatenate([np.repeat(s.cells, np.diff(s.cell_offsets)) for s in segments])
        rows = np.concatenate(
            [s.postings.astype(np.int64) + start for s, start in zip(segments, self.starts, strict=False)]
        )
        order = np.argsort(cells, kind="stable") if len(segments) > 1 else slice(None)
        counts = np.bincount(cells, minlength=self.codec.cells)
        self.postings = self._to_device(rows[order].astype(np.int32))
        self.cell_ends = self._to_device(counts.cumsum())
        self.cell_starts = self.cell_ends - self._to_device(counts)

    def _join(self, arrays: Sequence[Array], kind: npt.DTypeLike) -> Tensor:
        return torch.cat([self._to_device(np.asarray(array, kind)) for array in arrays]) if arrays else torch.empty(0)

    def _to_device(self, array: Array) -> Tensor:
        return torch.from_numpy(np.array(array)).to(self.device)
