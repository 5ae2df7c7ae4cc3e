// Makes small objects in an array and in a map, and an array of numbers. Reads all in order, then
// some at random.
const count = Number(process.argv[2]);
const nodes = [];
const table = new Map();
for (let at = 0; at < count; at++) {
  const node = { key: at, text: "node " + at, left: at > 0 ? nodes[at - 1] : null };
  nodes.push(node);
  table.set(node.text, node);
}
const numbers = new Float64Array(4 * count).map((_, at) => (at * 7919) % 1000003);
numbers.sort();
let sum = 0;
for (const node of nodes) sum += node.key - (node.left ? node.left.key : 0);
let found = 0, seed = 1;
for (let walk = 0; walk < 1000; walk++) {
  seed = (seed * 48271) % 2147483647;
  found = (found * 31 + table.get("node " + (seed % count)).key) % 1000003;
}
console.log("in order", sum, numbers[count], "at random", found);
