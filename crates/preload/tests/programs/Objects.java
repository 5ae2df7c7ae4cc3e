/**
 * Makes objects in a list and in a map, and an array of numbers. Reads all in order, then some at
 * random.
 */
public class Objects {
    static final class Node {
        final int key;
        final String text;
        final Node left;

        Node(int key, Node left) {
            this.key = key;
            this.text = "node " + key;
            this.left = left;
        }
    }

    public static void main(String[] words) {
        int count = Integer.parseInt(words[0]);
        var nodes = new java.util.ArrayList<Node>();
        var table = new java.util.HashMap<String, Node>();
        for (int at = 0; at < count; at++) {
            var node = new Node(at, at > 0 ? nodes.get(at - 1) : null);
            nodes.add(node);
            table.put(node.text, node);
        }
        long[] numbers = new long[4 * count];
        for (int at = 0; at < numbers.length; at++) numbers[at] = at * 7919L % 1000003;
        java.util.Arrays.sort(numbers);
        long sum = 0;
        for (var node : nodes) sum += node.key - (node.left == null ? 0 : node.left.key);
        long found = 0, seed = 1;
        for (int walk = 0; walk < 1000; walk++) {
            seed = seed * 48271 % 2147483647;
            found = (found * 31 + table.get("node " + seed % count).key) % 1000003;
        }
        System.out.println("in order " + sum + " " + numbers[count] + " at random " + found);
    }
}
