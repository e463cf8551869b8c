package oracle

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"
)

// A tally is of one kind of difference in all clusters.
type tally struct {
	pairs, clusters int
	first           uint64 // the cluster of the example
	example         difference
}

// tallies are of many clusters.
type tallies struct {
	mu       sync.Mutex
	clusters int
	asked    *comparison
	kinds    map[string]*tally // by the key of a difference
}

// compareMany compares the first clusters of the seed.
func compareMany(count int) (*tallies, error) {
	all := &tallies{asked: newComparison(), kinds: map[string]*tally{}}
	var group errgroup.Group
	group.SetLimit(2)
	for i := range uint64(count) {
		group.Go(func() error {
			c, err := examine(drawCluster(i), nil)
			if err != nil {
				return fmt.Errorf("cluster %d: %w", i, err)
			}
			all.add(i, c)
			return nil
		})
	}
	return all, group.Wait()
}

func (all *tallies) add(number uint64, c *comparison) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.clusters++
	all.asked.allowed += c.allowed
	for _, of := range []struct{ sum, part map[string]int }{{all.asked.pairs, c.pairs}, {all.asked.moves, c.moves}, {all.asked.ignored, c.ignored}} {
		for key, n := range of.part {
			of.sum[key] += n
		}
	}
	here := map[string]bool{}
	for _, d := range c.found {
		k := all.kinds[d.key()]
		if k == nil {
			k = &tally{first: number, example: d}
			all.kinds[d.key()] = k
		}
		if k.pairs++; number < k.first {
			k.first, k.example = number, d
		}
		if !here[d.key()] {
			k.clusters++
			here[d.key()] = true
		}
	}
}

// log writes the tables of the page docs/results/oracle-constraints.md, each line with its table first.
func (all *tallies) log(t testing.TB) {
	of := all.asked
	t.Logf("| asked | %d clusters | %d pairs of explain, of which filters allow %d | %d of the trace | %d moves of rebalance | %d of make-room |",
		all.clusters, of.pairs["explain"], of.allowed, of.pairs["trace"], of.moves["rebalance"], of.moves["make-room"])
	rows := slices.Collect(maps.Values(all.kinds))
	slices.SortFunc(rows, func(a, b *tally) int {
		return cmp.Or(cmp.Compare(b.pairs, a.pairs), cmp.Compare(a.example.key(), b.example.key()))
	})
	for _, wider := range []bool{true, false} {
		seen := map[string]bool{}
		for _, k := range rows {
			if d := &k.example; d.wider == wider && !seen[d.kind] {
				seen[d.kind] = true
				counts := ""
				for _, by := range []string{"explain", "trace", "rebalance", "make-room"} {
					n := 0
					if k := all.kinds[(&difference{by: by, wider: wider, kind: d.kind}).key()]; k != nil {
						n = k.pairs
					}
					counts += fmt.Sprintf(" %d |", n)
				}
				t.Logf("| %s | %s |%s %d |", direction(wider), d.kind, counts, k.first)
			}
		}
	}
	for _, why := range slices.SortedFunc(maps.Keys(of.ignored), func(a, b string) int { return cmp.Or(cmp.Compare(of.ignored[b], of.ignored[a]), cmp.Compare(a, b)) }) {
		t.Logf("| ignored | %s | %d |", why, of.ignored[why])
	}
}
