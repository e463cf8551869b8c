package clusters

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func world(t *testing.T, s Style) *World {
	t.Helper()
	var text bytes.Buffer
	require.NoError(t, s.Write(&text))
	w, err := Read(&text)
	require.NoError(t, err)
	return w
}

// The same style gives the same bytes, and pods are where the filters let them be, but for nodes that broke later and
// spreads of workloads that shrank.
func TestStyles(t *testing.T) {
	for _, s := range Styles[:3] {
		var one, two bytes.Buffer
		require.NoError(t, s.Write(&one))
		require.NoError(t, s.Write(&two))
		require.Equal(t, one.Bytes(), two.Bytes(), s.Name)
		w := world(t, s)
		pods := 0
		for _, on := range w.at {
			pods += len(on)
		}
		require.LessOrEqual(t, pods, len(w.pods), "names are unique")
		require.GreaterOrEqual(t, len(w.nodes), s.Nodes)
		require.Greater(t, len(w.pods), 5*s.Nodes)
		for what := range w.wrong() {
			_, why, _ := strings.Cut(what, ": ")
			require.Contains(t, []string{"it is cordoned", "it is not ready", "node selector, affinity or taints", "spread by topology.kubernetes.io/zone"}, why, what)
		}
	}
}

const pair = `{"kind":"List","items":[
{"kind":"Node","metadata":{"name":"a","labels":{"kubernetes.io/hostname":"a","zone":"1"}},"status":{"allocatable":{"cpu":"2","memory":"4Gi","pods":"10"},"conditions":[{"type":"Ready","status":"True"}]}},
{"kind":"Node","metadata":{"name":"b","labels":{"kubernetes.io/hostname":"b","zone":"2"}},"status":{"allocatable":{"cpu":"1500m","memory":"4194304Ki","pods":"10"},"conditions":[{"type":"Ready","status":"True"}]}},
{"kind":"Node","metadata":{"name":"c","labels":{"kubernetes.io/hostname":"c","zone":"2"}},"spec":{"taints":[{"key":"k","effect":"NoSchedule"}]},"status":{"allocatable":{"cpu":"8","memory":"8e9","pods":"10"},"conditions":[{"type":"Ready","status":"True"}]}}
]}
{"kind":"List","items":[
{"kind":"PodDisruptionBudget","metadata":{"name":"web","namespace":"n"},"spec":{"selector":{"matchLabels":{"app":"WEB"}}},"status":{"disruptionsAllowed":0,"expectedPods":1}},
{"kind":"Pod","metadata":{"name":"p","namespace":"n","labels":{"app":"web"},"ownerReferences":[{"kind":"ReplicaSet","controller":true}]},"spec":{"nodeName":"a","containers":[{"resources":{"requests":{"cpu":"1","memory":"1Gi"}}}]EXTRA},"status":{"phase":"Running"}},
{"kind":"Pod","metadata":{"name":"q","namespace":"n","labels":{"app":"web"},"ownerReferences":[{"kind":"ReplicaSet","controller":true}]},"spec":{"nodeName":"b","containers":[{"resources":{"requests":{"cpu":"CPU","memory":"1Gi"}}}]},"status":{"phase":"Running"}}
]}`

// Each rule refuses a move that the others let pass.
func TestMove(t *testing.T) {
	same := `"labelSelector":{"matchLabels":{"app":"web"}}`
	for _, of := range []struct{ name, extra, cpu, budget, to, want string }{
		{name: "it fits", to: "b"},
		{name: "a budget", budget: "web", to: "b", want: "n/p: the budget web allows no disruption"},
		{name: "too large", cpu: "501m", to: "b", want: "n/p to b: too little cpu"},
		{name: "a taint", to: "c", want: "n/p to c: node selector, affinity or taints"},
		{name: "tolerated", extra: `,"tolerations":[{"key":"k","operator":"Exists"}]`, to: "c"},
		{name: "a selector", extra: `,"nodeSelector":{"zone":"1"}`, to: "b", want: "n/p to b: node selector, affinity or taints"},
		{name: "anti-affinity", extra: `,"affinity":{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{` + same + `,"topologyKey":"zone"}]}}`, to: "b", want: "n/p to b: anti-affinity by zone"},
		{name: "spread", extra: `,"topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"zone","whenUnsatisfiable":"DoNotSchedule",` + same + `}]`, to: "b", want: "n/p to b: spread by zone: 2 with it, least 0, at most 1"},
		{name: "a volume", extra: `,"volumes":[{"persistentVolumeClaim":{"claimName":"v"}}]`, to: "b", want: "n/p: its volume may be bound to its place"},
	} {
		t.Run(of.name, func(t *testing.T) {
			cpu, budget := "500m", "none"
			if of.cpu != "" {
				cpu = of.cpu
			}
			if of.budget != "" {
				budget = of.budget
			}
			w, err := Read(strings.NewReader(strings.NewReplacer("EXTRA", of.extra, "CPU", cpu, "WEB", budget).Replace(pair)))
			require.NoError(t, err)
			require.Equal(t, of.want, w.Move("n/p", "a", of.to))
		})
	}
}
