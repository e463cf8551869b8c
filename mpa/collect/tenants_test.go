package collect

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

// The queries of tenant a take longer than they may, and are asked all the time. Those of tenant b have their answers.
func TestTwoTenantsShareAServer(t *testing.T) {
	var all sync.WaitGroup
	t.Cleanup(all.Wait)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.FormValue("query"), "slow") {
			hang(w, r)
			return
		}
		prom(one("1"), 1)(w, r)
	}))
	t.Cleanup(s.Close)
	at := now
	p := allow(t, 4, func() time.Time { return at }, Server{Name: "main", URL: s.URL})
	ask := func(namespace, query string, patience time.Duration) ([]Problem, error) {
		o := object(func(o *v1alpha1.MultidimPodAutoscaler) {
			o.Namespace = namespace
			o.Spec.Metrics.Prometheus = &v1alpha1.Prometheus{Server: "main", Queries: v1alpha1.Queries{Rate: query}}
		})
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, problems, err := p.measure(ctx, o, &mpa.Observation{Time: now, Pods: []mpa.Pod{{Name: "x"}}})
		return problems, err
	}
	for range 5 {
		problems, err := ask("a", "slow", 20*time.Millisecond)
		require.NoError(t, err)
		requireProblem(t, problems, Rate, "PrometheusTimeout", "")
		problems, err = ask("a", "slow", 20*time.Millisecond)
		require.NoError(t, err)
		requireProblem(t, problems, Rate, "PrometheusUnreachable", "") // a pause, for a
		problems, err = ask("b", "quick", time.Minute)
		require.NoError(t, err)
		require.Empty(t, problems)
		at = at.Add(time.Hour)
	}
	// All places are taken by queries of a that have not timed out yet.
	p = allow(t, 4, func() time.Time { return at }, Server{Name: "main", URL: s.URL})
	for range 4 {
		all.Go(func() { _, _ = ask("a", "slow", 500*time.Millisecond) })
	}
	require.Eventually(t, func() bool { return p.servers[0].places.All() == 4 }, time.Minute, time.Millisecond)
	_, err := ask("b", "quick", time.Minute)
	require.ErrorIs(t, err, ErrBusy)
	all.Wait()
	for range 2 {
		all.Go(func() { _, _ = ask("a", "slow", 100*time.Millisecond) })
	}
	require.Eventually(t, func() bool {
		problems, err := ask("b", "quick", time.Minute)
		return err == nil && len(problems) == 0
	}, time.Minute, time.Millisecond)
}

// Where two namespaces have no answer, and nobody has had one since, the server is left alone by all; the first answer ends that.
func TestSilentServerIsLeftAloneByAll(t *testing.T) {
	at := now
	p := allow(t, 4, func() time.Time { return at }, Server{Name: "main", URL: "http://prometheus"})
	o := &v1alpha1.Prometheus{Server: "main"}
	try := func(namespace string, silent *Problem) bool {
		s, err := p.enter(namespace, o)
		if err != nil {
			return false
		}
		p.leave(s, namespace, silent)
		return true
	}
	late := &Problem{Reason: "PrometheusTimeout"}
	require.True(t, try("a", late))
	require.True(t, try("b", late))
	require.False(t, try("c", nil))
	at = at.Add(leastPause)
	require.True(t, try("c", nil))
	require.True(t, try("a", late), "a pause of nobody is left")
	at = at.Add(time.Second)
	require.True(t, try("c", nil))
	require.True(t, try("b", late))
	require.True(t, try("c", nil), "c has had an answer since")
	require.True(t, try("d", &Problem{Reason: "PrometheusUnreachable"}))
	require.False(t, try("c", nil))
}
