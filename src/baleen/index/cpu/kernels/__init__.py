"""The inner loops of a search on a CPU, compiled by numba; each takes a range of rows, so that threads can share it.

    tables.py  map_lanes             query vectors               -> lanes in the mapped space
               lookup_*              codebooks x query           -> what each residual byte adds to each lane
               cell_scores           centroids x query           -> a score for each (cell, lane)
    gather.py  probe_cells           cell scores                 -> the best cells of each lane
               probed_lists          cells                       -> their inverted lists, and the gain of each
               seek_rows             lists                       -> their positions from some row on
               gather_evidence       lists                       -> evidence for each passage
               select_largest        values                      -> positions of the largest, without sorting
    score.py   score_by_centroids    passages                    -> focused scores, every token taken for its centroid
               score_by_residuals    passages                    -> focused scores from centroids and residuals
               decode_rows           cells and residuals         -> float32 vectors
               score_vectors         float32 vectors             -> the best match of each lane

Query vectors lie in *lanes*, 64 to a block; the claim's blocks come first, then the facts'.  A lane without a vector
scores `NO_VECTOR`, which no sum includes.  Scores are int16 multiples of a step that is chosen for each query.  The
scores of centroids alone are bytes, since reading them from memory takes most of the time.  `index.scoring` is the
reference that all of this is tested against.
"""
