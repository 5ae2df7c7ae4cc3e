// Makes objects in a slice and in a map, and an array of numbers. Reads all in order, then some at
// random.
package main

import (
	"fmt"
	"os"
	"sort"
	"strconv"
)

type node struct {
	key  int
	text string
	left *node
}

func main() {
	count, _ := strconv.Atoi(os.Args[1])
	nodes := []*node{}
	table := map[string]*node{}
	var left *node
	for at := 0; at < count; at++ {
		left = &node{at, "node " + strconv.Itoa(at), left}
		nodes = append(nodes, left)
		table[left.text] = left
	}
	numbers := make([]float64, 4*count)
	for at := range numbers {
		numbers[at] = float64(at * 7919 % 1000003)
	}
	sort.Float64s(numbers)
	sum := 0
	for _, node := range nodes {
		sum += node.key
		if node.left != nil {
			sum -= node.left.key
		}
	}
	found, seed := 0, 1
	for walk := 0; walk < 1000; walk++ {
		seed = seed * 48271 % 2147483647
		found = (found*31 + table["node "+strconv.Itoa(seed%count)].key) % 1000003
	}
	fmt.Println("in order", sum, numbers[count], "at random", found)
}
