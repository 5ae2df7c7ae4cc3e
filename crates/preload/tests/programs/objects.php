<?php
// Makes objects in an array and by name. Reads all in order, then some at random.
ini_set("memory_limit", "-1");
$count = (int) $argv[1];
$nodes = [];
$table = [];
for ($at = 0; $at < $count; $at++) {
    $node = (object) ["key" => $at, "text" => "node $at", "left" => $at ? $nodes[$at - 1] : null];
    $nodes[] = $node;
    $table[$node->text] = $node;
}
$sum = 0;
foreach ($nodes as $node) {
    $sum += $node->key - ($node->left ? $node->left->key : 0);
}
$found = 0;
$seed = 1;
for ($walk = 0; $walk < 1000; $walk++) {
    $seed = $seed * 48271 % 2147483647;
    $found = ($found * 31 + $table["node " . $seed % $count]->key) % 1000003;
}
echo "in order $sum at random $found\n";
exit(0);
