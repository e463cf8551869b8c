package drain

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/internal/usage"
	"github.com/sigma-scheduler/sigma/internal/usage/prometheus"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// BenchmarkRelief plans relief in a cluster of 1,000 nodes with 10,000 pods, of which ten nodes, or all, are above capacity.
func BenchmarkRelief(b *testing.B) {
	for _, hot := range []int{10, 1000} {
		b.Run(fmt.Sprintf("hot=%d", hot), func(b *testing.B) {
			var pods []*v1.Pod
			var nodes []*v1.Node
			window := prometheus.Latest{}
			for i := range 1000 {
				n := node(i, "a")
				n.Name = fmt.Sprintf("n%02d", i)
				nodes = append(nodes, n)
				for k := range 10 {
					p := pod(fmt.Sprintf("w%d", k), i, i, "200m")
					pods = append(pods, p)
					cores := .2
					if i < hot {
						cores = .45
					}
					window[prometheus.Pod{Namespace: p.Namespace, Name: p.Name}] = map[string]usage.Amounts{"c": {CPU: cores, Memory: 1}}
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				l := newLeaves(pods, nodes, nil, "", noon)
				l.measure([2]prometheus.Latest{window, window}, 1)
				others := podspec.NewOthers(pods, nodes, "")
				l.stays = func(p *v1.Pod) string { return podspec.Movable(p, 0, others) }
				l.prefer = func(_ *v1.Pod, nodes []string) []string { return nodes }
				l.refusal = func(*v1.Pod, string) string { return "" }
				if l.search(100); len(l.moves) != hot%1000 {
					b.Fatal(l.moves)
				}
			}
		})
	}
}
