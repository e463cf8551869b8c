package engine

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/ledger/ledgertest"
)

// installed is the policy of the manifests.
func installed(m policy.Mode) *policy.Object {
	o := policy.Shipped()
	o.Spec.Mode = m
	return o
}

// The installed policy changes its file when pods leave. Each file of the log says which one
// decides, gives the same choices and decisions alone, and so does the whole log.
func TestInstalledPolicyChooses(t *testing.T) {
	for _, m := range []policy.Mode{policy.Shadow, policy.Live} {
		l := busy(t, func(o *Options) { o.Fleet, o.DecisionLogBytes = "fixed", 30<<10 })
		l.alike = true // where nodes differ one file decides all
		l.SetPolicy(ledger.Primary, installed(m))
		l.plan(nil) // a forecast
		l.live(rand.New(rand.NewPCG(1, 1)), 600)
		digest := policy.Shipped().Digest()
		require.InDelta(t, 1, l.gauge(l.metrics.chosen.WithLabelValues("primary", "kubernetes-k0-fixed.yaml")), 0)
		require.InDelta(t, 0, l.gauge(l.metrics.chosen.WithLabelValues("primary", "kubernetes-k0.yaml")), 0)
		require.NoError(t, l.Close())
		paths := l.files()
		require.Greater(t, len(paths), 3)
		v := l.verifyFiles(paths...)
		require.Greater(t, v.Agreed, 200)
		agreed, files := 0, map[string]bool{}
		for _, path := range paths {
			agreed += l.verifyFiles(path).Agreed
			list := ledgertest.Events(t, path, ledger.KindChoose)
			require.NotEmpty(t, list, "the file does not say what decides in it")
			for _, e := range list {
				require.Equal(t, digest, e.Chosen.By)
				files[e.Chosen.Name] = true
			}
		}
		require.Equal(t, v.Agreed, agreed)
		require.Equal(t, []string{"kubernetes-k0-fixed.yaml", "kubernetes-k0.yaml"}, slices.Sorted(maps.Keys(files)))

		// Another choice than the state's, or none, is found.
		last := paths[len(paths)-1]
		text, err := os.ReadFile(last)
		require.NoError(t, err)
		verify := func(text []byte) *ledger.Verdict {
			v, err := ledger.Verify(last, bytes.NewReader(text))
			require.NoError(t, err)
			return v
		}
		v = verify(bytes.Replace(text, []byte(`"name":"kubernetes-k0-fixed.yaml"`), []byte(`"name":"general-k1.yaml"`), 1))
		require.ErrorContains(t, v.First, "the log has general-k1.yaml, computed is kubernetes-k0-fixed.yaml")
		// A program that ships other files takes the choice, with the file, from the log.
		other := "sha256:" + strings.Repeat("0", 64)
		v = verify(bytes.ReplaceAll(text, []byte(digest), []byte(other)))
		require.Nil(t, v.First)
		require.NotZero(t, v.Agreed)
		// So in every file of its log, whose choices change.
		var former []string
		for _, path := range paths {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			text = bytes.ReplaceAll(bytes.ReplaceAll(text, []byte(digest), []byte(other)), []byte(`"name":"kubernetes-k0.yaml"`), []byte(`"name":"former.yaml"`))
			former = append(former, filepath.Join(t.TempDir(), filepath.Base(path)))
			require.NoError(t, os.WriteFile(former[len(former)-1], text, 0o600))
		}
		require.Equal(t, agreed, l.verifyFiles(former...).Agreed)
	}
}

// Without a forecast a file decides that reads none; Best-Fit does not have to.
func TestInstalledPolicyWithoutForecast(t *testing.T) {
	l := newLab(t)
	l.node("a", 8)
	l.node("b", 8)
	l.SetPolicy(ledger.Primary, installed(policy.Live))
	require.True(t, l.state.forecastAt.IsZero())
	v := l.rank(pod("p", "web"))
	require.Equal(t, ledger.CausePolicy, v.decision.Cause)
	require.Equal(t, "kubernetes-k0-fixed.yaml", l.state.ledger.ChosenFile(ledger.Primary))
}

// Pods that come one by one leave nodes of a roomy fleet empty, and what has been placed by then
// is more than the forecast: from .6 of the fleet on every node counts.
func TestInstalledPolicyKeepsNodesEmpty(t *testing.T) {
	l := newLab(t)
	for _, name := range []string{"a", "b", "c", "d"} {
		l.node(name, 8)
	}
	l.SetPolicy(ledger.Primary, installed(policy.Live))
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	d.Spec.Replicas, d.Spec.Template.Labels = new(int32(6)), map[string]string{"app": "web"}
	d.Spec.Template.Spec = pod("", "web").Spec
	l.SetDeclared(&kube.Declarations{Deployments: []*appsv1.Deployment{d}})
	place := func(from, to int) {
		for i := from; i < to; i++ {
			require.Equal(t, ledger.CausePolicy, l.place(pod(fmt.Sprint("p", i), "web")).decision.Cause)
		}
	}
	busy := func() (n int) {
		for _, pods := range l.on {
			n += min(1, len(pods))
		}
		return n
	}
	place(0, 6)
	require.Equal(t, "kubernetes-k0.yaml", l.state.ledger.ChosenFile(ledger.Primary))
	require.Equal(t, 2, busy(), "a node holds half of an app's six pods")
	place(6, 22) // 21 of 32 cores before the last one
	require.Equal(t, "kubernetes-k0-fixed.yaml", l.state.ledger.ChosenFile(ledger.Primary))
	require.Equal(t, 22, l.verify().Agreed)
}
