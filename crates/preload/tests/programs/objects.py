"""1,000,000 small objects, made, linked, found in order and in random order, and let go."""

import gc
import hashlib
import random
import sys


class Node:
    __slots__ = ("key", "left", "text")

    def __init__(self, key):
        self.key, self.left, self.text = key, None, str(key)


count, walks = int(sys.argv[1]), int(sys.argv[2])
nodes = [Node(at) for at in range(count)]
for node, left in zip(nodes, reversed(nodes)):
    node.left = left
digest = hashlib.sha256()
for node in nodes:
    digest.update(node.left.text.encode())
print("in order", digest.hexdigest(), sum(node.left.key for node in nodes))
table = {node.text: node for node in nodes}
chosen = random.Random(1)
found = 0
for _ in range(walks):
    found = (found * 31 + table[str(chosen.randrange(count))].left.key) % 1_000_003
print("in random order", found)
del nodes, node, left
table.clear()
print("let go", gc.collect() >= count, gc.get_count()[2])
