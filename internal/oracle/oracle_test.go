package oracle

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// few is the number of clusters on which the oracle itself is tested.
const few = 12

func TestSameNumberSameCluster(t *testing.T) {
	for i := range uint64(few) {
		a, err := drawCluster(i).yaml()
		require.NoError(t, err)
		b, err := drawCluster(i).yaml()
		require.NoError(t, err)
		require.Equal(t, a, b)
	}
}

// TestModelIsAsk compares the one state of a cluster with the states that Ask builds for each question.
func TestModelIsAsk(t *testing.T) {
	asked := 0
	for i := range uint64(few) {
		c := drawCluster(i)
		m, err := newModel(c)
		require.NoError(t, err)
		picture := pictureOf(c)
		for _, p := range c.Pods {
			if m.unknown(p) != "" {
				continue
			}
			refused, err := m.ask(p)
			require.NoError(t, err)
			q, err := picture.Ask(nameOf(p), appLabel, "fixed", nil)
			require.NoError(t, err)
			var may, allowed []string
			for _, n := range c.Nodes {
				if _, is := refused[n.Name]; !is {
					may = append(may, n.Name)
				}
			}
			for _, machine := range q.Allowed {
				allowed = append(allowed, q.State.NodeName(machine))
			}
			slices.Sort(may)
			slices.Sort(allowed)
			require.Equal(t, allowed, may, "cluster %d, pod %s", i, nameOf(p))
			asked++
		}
	}
	require.Greater(t, asked, 100)
}

// TestFiltersForget asks twice, with moves between the questions.
func TestFiltersForget(t *testing.T) {
	c := drawCluster(3)
	f := newFilters(c)
	defer f.close()
	ask := func() (list []map[string]refusal) {
		for _, p := range c.Pods {
			list = append(list, f.without(p))
		}
		return list
	}
	before := ask()
	for _, p := range c.Pods {
		if p.Spec.NodeName != "" {
			f.remove(p)
			f.add(p)
		}
	}
	require.Equal(t, before, ask())
}

// TestShrink keeps what a question needs and no more.
func TestShrink(t *testing.T) {
	c := drawCluster(3)
	at := slices.IndexFunc(c.Pods, func(p *v1.Pod) bool { return p.Spec.NodeName != "" && p.Labels["tier"] == "web" })
	pod, node := nameOf(c.Pods[at]), c.Pods[at].Spec.NodeName
	c.shrink(pod, node, func() bool {
		return len(c.Nodes) > 0 && slices.ContainsFunc(c.Pods, func(p *v1.Pod) bool { return p.Labels["tier"] == "web" && p.Spec.NodeName == node })
	})
	require.Len(t, c.Pods, 1)
	require.Len(t, c.Nodes, 1)
	require.Empty(t, c.others())
	require.Equal(t, map[string]string{"tier": "web"}, c.Pods[0].Labels)
	require.Nil(t, c.Pods[0].Spec.Affinity)
	require.Empty(t, c.Nodes[0].Labels)
}
