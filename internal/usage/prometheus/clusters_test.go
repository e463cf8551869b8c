package prometheus

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/internal/usage/prometheus/prometheustest"
)

// inCluster is a pod that uses as much all the time, with a cgroup of its own.
func inCluster(name, value string, cpu float64) prometheustest.Series {
	s := prometheustest.Of("shop", "web-1", "app", prometheustest.Always(cpu), prometheustest.Always(1e9))
	s.ID = "/kubepods/" + value
	if value != "" {
		s.Labels = map[string]string{name: value}
	}
	return s
}

// One Prometheus with two clusters: no sample of one counts for the other.
func TestSeveralClustersAreRefusedOrMatched(t *testing.T) {
	for _, label := range []string{"cluster", "cluster_id", "region"} { // the last one is of the pod's duplicates alone
		f := startFake(t, inCluster(label, "a", 1), inCluster(label, "b", 4))
		dir := t.TempDir()
		_, err := (&Reader{URLs: []string{f.URL}, Folder: dir}).Read(t.Context(), noon, 2)
		var mixed *MixedError
		require.ErrorAs(t, err, &mixed, label)
		assert.Equal(t, label, mixed.Label)
		assert.Equal(t, []string{"a", "b"}, mixed.Values)
		require.ErrorContains(t, err, label+` "a", "b"`)
		for value, cpu := range map[string]float64{"a": 1, "b": 4} {
			r := &Reader{URLs: []string{f.URL}, Folder: dir, Match: label + `="` + value + `"`}
			rec, err := r.Read(t.Context(), noon, 2)
			require.NoError(t, err)
			assert.Equal(t, 2, rec.Read, "the days of another cluster are not those of this one")
			assert.InEpsilon(t, cpu, histories(t, rec).Pods["shop/web"].Busiest(1, float64(rec.Until)*86400), .011)
		}
		_, err = (&Reader{URLs: []string{f.URL}, Folder: dir, Match: `namespace="shop"`}).Read(t.Context(), noon, 2)
		require.ErrorAs(t, err, &mixed, "a matcher of another label chooses no cluster")
	}
}

func TestOneClusterIsNotRefused(t *testing.T) {
	one := inCluster("cluster", "a", 1)
	again := one
	again.Labels = map[string]string{"cluster": "a", "prometheus_replica": "1"} // a pair: the same cgroup twice
	moved := inCluster("node", "n2", 1)
	moved.ID = "/kubepods/moved"
	moved.Labels["cluster"] = "a"
	f := startFake(t, one, again, moved)
	read(t, t.TempDir(), noon, 2, f.URL)
	// The Prometheus of the cluster has no external label, which a store of many adds.
	bare, stored := startFake(t, inCluster("", "", 1)), startFake(t, inCluster("cluster", "a", 1))
	read(t, t.TempDir(), noon, 2, bare.URL, stored.URL)
	other := startFake(t, inCluster("cluster", "b", 1))
	_, err := (&Reader{URLs: []string{stored.URL, other.URL}, Folder: t.TempDir()}).Read(t.Context(), noon, 2)
	require.ErrorContains(t, err, `cluster "a", "b"`)
}

// A matcher applies to the owners of pods too.
func TestOwnersOfTheMatchedCluster(t *testing.T) {
	f := startFake(t, inCluster("cluster", "a", 1), inCluster("cluster", "b", 4))
	owner := func(cluster, kind string) map[string]string {
		return map[string]string{"metric": "kube_pod_owner", "namespace": "shop", "pod": "web-1", "owner_kind": kind, "owner_name": "web", "cluster": cluster}
	}
	f.Owners = []map[string]string{owner("a", "StatefulSet"), owner("b", "DaemonSet")}
	rec, err := (&Reader{URLs: []string{f.URL}, Folder: t.TempDir(), Match: `cluster="a"`}).Read(t.Context(), noon, 1)
	require.NoError(t, err)
	d, err := rec.Day(rec.Days[0])
	require.NoError(t, err)
	assert.Equal(t, Owner{"StatefulSet", "web"}, d.Owners[Pod{"shop", "web-1"}])
}

func TestMatchers(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string
	}{
		{"", nil}, {`cluster="a"`, []string{"cluster"}}, {` cluster =~ "a|b" , env!='x',`, []string{"cluster", "env"}}, {"a=`{}`", []string{"a"}}, {`a="\"}"`, []string{"a"}},
	} {
		got, err := Matchers(c.text)
		require.NoError(t, err, c.text)
		assert.Equal(t, c.want, got, c.text)
	}
	for _, text := range []string{"cluster", "cluster=a", `{cluster="a"}`, `cluster="a"} or up{a="b"`, `cluster="a" env="b"`, `1a="b"`, `,`, `a="b"c`, "a=\"b\nc\"", `a=~"("`} {
		_, err := Matchers(text)
		require.Error(t, err, text)
	}
}
