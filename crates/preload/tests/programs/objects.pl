# Makes hashes in an array and by name. Reads all in order, then some at random.
use strict;
use warnings;
my $count = $ARGV[0];
my (@nodes, %table);
for my $at (0 .. $count - 1) {
    my $node = { key => $at, text => "node $at", left => $at ? $nodes[-1] : undef };
    push @nodes, $node;
    $table{ $node->{text} } = $node;
}
my $sum = 0;
$sum += $_->{key} - ($_->{left} ? $_->{left}{key} : 0) for @nodes;
my ($found, $seed) = (0, 1);
for (1 .. 1000) {
    $seed = $seed * 48271 % 2147483647;
    $found = ($found * 31 + $table{ "node " . $seed % $count }{key}) % 1000003;
}
print "in order $sum at random $found\n";
