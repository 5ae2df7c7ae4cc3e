# Makes objects in an array and in a hash. Reads all in order, then some at random.
Node = Struct.new(:key, :text, :left)
count = ARGV[0].to_i
nodes = []
count.times { |at| nodes << Node.new(at, "node #{at}", nodes.last) }
table = nodes.to_h { |node| [node.text, node] }
sum = nodes.sum { |node| node.key - (node.left ? node.left.key : 0) }
found = 0
seed = 1
1000.times do
  seed = seed * 48271 % 2147483647
  found = (found * 31 + table["node #{seed % count}"].key) % 1000003
end
puts "in order #{sum} at random #{found}"
