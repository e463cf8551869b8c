package kube_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// The newest pod says what the pods of its group send; what is wrong in it does not count.
func TestSendsOfAGroup(t *testing.T) {
	w := newWorld(t)
	web := func(name string, second int, sends string) *v1.Pod {
		p := podOf(name, created(second), ownedBy("Deployment", "web"), requests("cpu", "1"))
		p.Annotations = map[string]string{podspec.SendsAnnotation: sends}
		return p
	}
	sends := func(pods ...*v1.Pod) []string {
		w.SetNode(nodeOf("a"), pods)
		return w.ledger.Group(webGroup).Apps()[0].Spec().Sends
	}
	old := web("web-1", 1, "shop/StatefulSet/db=1M:paired,wrong")
	require.Equal(t, []string{"shop/StatefulSet/db=1000000:paired"}, sends(old))
	require.Equal(t, []string{"shop/StatefulSet/db=2000000"}, sends(old, web("web-2", 2, "shop/StatefulSet/db=2M")))
	require.Equal(t, []string{"shop/StatefulSet/db=1000000:paired"}, sends(old))
	require.Empty(t, sends(web("web-3", 3, "")))
}
