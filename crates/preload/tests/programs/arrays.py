"""What NumPy computes of some large arrays, as digests: equal to the last bit, or not."""

import hashlib

import numpy as np


def say(name, array):
    content = np.ascontiguousarray(array).view(np.uint8)
    print(name, hashlib.sha256(content).hexdigest())


side = 1100
random = np.random.default_rng(1)
a = random.random((side, side))
b = random.random((side, side))
say("product", a @ b)
transformed = np.fft.fft2(a)
say("transform", transformed)
say("back", np.fft.ifft2(transformed).real)
many = random.random(2 * side * side)
say("sorted", np.sort(many))
say("sums", np.array([many.sum(), a.mean(), b.std()]))
say("solved", np.linalg.solve(a[:300, :300], b[:300, :300]))
say("chosen", np.where(a > 0.5, a, b).T.copy())
