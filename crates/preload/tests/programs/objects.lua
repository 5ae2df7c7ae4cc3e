-- Makes tables in a list and by name. Reads all in order, then some at random.
local count = tonumber(arg[1])
local nodes, byname = {}, {}
for at = 1, count do
  local node = { key = at, text = "node " .. at, left = nodes[at - 1] }
  nodes[at] = node
  byname[node.text] = node
end
local sum = 0
for _, node in ipairs(nodes) do sum = sum + node.key - (node.left and node.left.key or 0) end
local found, seed = 0, 1
for _ = 1, 1000 do
  seed = seed * 48271 % 2147483647
  found = (found * 31 + byname["node " .. seed % count + 1].key) % 1000003
end
print("in order", sum, "at random", found)
