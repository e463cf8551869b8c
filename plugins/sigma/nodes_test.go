package sigma

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/sigma-scheduler/sigma/plugins/engine"
)

// TestMarkPassed: whichever nodes passed, in whatever order the filters finished and whichever of them an extender sent
// back as copies, each is marked at its place, with the node that was passed; and a filter has all of them.
func TestMarkPassed(t *testing.T) {
	d := rand.New(rand.NewPCG(1, 8))
	for range 200 {
		var list []fwk.NodeInfo
		for i := range d.IntN(40) {
			info := framework.NewNodeInfo()
			info.SetNode(node(fmt.Sprint("n", i), 8).Obj())
			list = append(list, info)
		}
		var n nodes
		n.visit(list, true, func(engine.Node) {}, func(string) {})
		want, sent := map[int]fwk.NodeInfo{}, []fwk.NodeInfo(nil)
		begin := d.IntN(len(list) + 1) // the scheduler begins where the last cycle ended
		for k := range list {
			if i := (begin + k) % len(list); d.IntN(4) > 0 {
				if want[i] = list[i]; d.IntN(20) == 0 {
					want[i] = list[i].Snapshot()
				}
				sent = append(sent, want[i])
			}
		}
		if d.IntN(2) == 0 {
			d.Shuffle(len(sent), func(i, j int) { sent[i], sent[j] = sent[j], sent[i] })
		}
		stranger := framework.NewNodeInfo()
		stranger.SetNode(node("stranger", 8).Obj())
		n.markPassed(append(sent, stranger))
		var has filter
		for i := range list {
			require.Equal(t, want[i] != nil, n.passed[i], i)
			if want[i] != nil {
				require.Same(t, want[i], n.given[i])
				has.add(n.given[i])
			}
		}
		for _, info := range sent {
			require.True(t, has.mayHave(concrete(info)))
		}
	}
}
