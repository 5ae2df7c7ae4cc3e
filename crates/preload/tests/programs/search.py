"""The nearest of some vectors, found by faiss in an inverted file or a graph, as a digest."""

import hashlib
import sys

import faiss
import numpy as np

kind, count, dimensions = sys.argv[1], int(sys.argv[2]), 256
faiss.omp_set_num_threads(1)
random = np.random.default_rng(1)
points = random.random((count, dimensions), dtype=np.float32)
wanted = points[:200] + np.float32(0.01)
if kind == "graph":
    index = faiss.IndexHNSWFlat(dimensions, 16)
    index.hnsw.efConstruction, index.hnsw.efSearch = 40, 200
else:
    index = faiss.index_factory(dimensions, "IVF16,Flat")
    index.nprobe = 4
    index.train(points[:1024])
index.add(points)
far, found = index.search(wanted, 10)
right = (found[:, 0] == np.arange(len(found))).mean()
print(kind, hashlib.sha256(found.tobytes() + far.tobytes()).hexdigest(), f"{right:.2f} are right")
