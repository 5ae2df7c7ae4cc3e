# Makes an array by number and an array by name. Reads all elements in order, then some at random.
BEGIN {
    for (at = 0; at < count; at++) {
        text[at] = "node " at
        key[text[at]] = at
    }
    for (at = 0; at < count; at++) sum += key[text[at]] % 7
    seed = 1
    for (walk = 0; walk < 1000; walk++) {
        seed = seed * 48271 % 2147483647
        found = (found * 31 + key["node " seed % count]) % 1000003
    }
    print "in order", sum, "at random", found
}
