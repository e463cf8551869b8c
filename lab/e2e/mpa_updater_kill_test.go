//go:build e2e

package e2e_test

import (
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sigma-scheduler/sigma/lab/e2e"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
)

// A cut is a proxy between the updater and the API server. It stops one request, before
// the API server gets it or after it has answered, so that the updater can be killed there.
type cut struct {
	kubeconfig string
	at         atomic.Pointer[cutPoint]
	seen       atomic.Int32 // accepted requests that changed more than the status
}

type cutPoint struct {
	is      func(*http.Request) bool
	after   bool // it was answered
	reached chan struct{}
	resume  chan struct{}
}

func startCut(t *testing.T, c *e2e.Cluster) *cut {
	t.Helper()
	target, err := url.Parse(c.Config.Host)
	require.NoError(t, err)
	tls, err := rest.TLSConfigFor(c.Config)
	require.NoError(t, err)
	p := &cut{}
	pass := func(r *http.Request, after bool) bool {
		point := p.at.Load()
		if point == nil || point.after != after || !point.is(r) || !p.at.CompareAndSwap(point, nil) {
			return true
		}
		close(point.reached)
		<-point.resume
		return false
	}
	quiet := log.New(io.Discard, "", 0)
	forward := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     &http.Transport{TLSClientConfig: tls, ForceAttemptHTTP2: true},
		FlushInterval: -1,
		ModifyResponse: func(r *http.Response) error {
			path := r.Request.URL.Path
			if r.Request.Method != http.MethodGet && r.StatusCode < 300 && !strings.HasSuffix(path, "/status") && !strings.HasSuffix(path, "/events") {
				p.seen.Add(1)
			}
			if !pass(r.Request, true) {
				return http.ErrAbortHandler
			}
			return nil
		},
		ErrorLog:     quiet,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !pass(r, false) {
			panic(http.ErrAbortHandler)
		}
		forward.ServeHTTP(w, r)
	}))
	server.Config.ErrorLog = quiet
	server.StartTLS()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	config, err := clientcmd.LoadFromFile(filepath.Join(c.Dir, "kubeconfig"))
	require.NoError(t, err)
	for _, cluster := range config.Clusters {
		cluster.Server = server.URL
		cluster.CertificateAuthorityData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	}
	p.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(*config, p.kubeconfig))
	return p
}

// kill kills the updater at the next such request, and starts it again.
func (p *cut) kill(u *updating, after bool, method, suffix string, act func()) {
	u.Helper()
	point := &cutPoint{
		is:    func(r *http.Request) bool { return r.Method == method && strings.HasSuffix(r.URL.Path, suffix) },
		after: after, reached: make(chan struct{}), resume: make(chan struct{}),
	}
	p.at.Store(point)
	act()
	limit := time.NewTimer(3 * time.Minute)
	defer limit.Stop()
	select {
	case <-point.reached:
	case <-limit.C:
		u.Fatalf("no %s …%s", method, suffix)
	}
	u.program.Kill(u)
	close(point.resume)
	u.program.Restart(u)
}

// An updater that is killed at any point between a decision and its last status carries the
// decision out once.
func TestUpdaterKilled(t *testing.T) {
	u := startUpdating(t)
	p := startCut(t, u.c)
	u.program.Stop(t)
	u.start(p.kubeconfig)
	u.deploy(2)
	u.object("Deployment", v1alpha1.ModeInPlaceOrRecreate, 1, 20)
	for round, at := range []struct {
		after          bool
		method, suffix string
	}{
		{false, http.MethodPatch, "/web/status"},
		{true, http.MethodPatch, "/web/status"},
		{false, http.MethodPut, "/scale"},
		{true, http.MethodPut, "/scale"},
		{true, http.MethodPut, "/scale"},
	} {
		p.seen.Store(0)
		want := int32(3 + round)
		p.kill(u, at.after, at.method, at.suffix, func() { u.recommend(v1alpha1.ChangeReplicas, want, "", "") })
		a := u.outcome(u.id, v1alpha1.OutcomeApplied)
		require.Equal(t, want, u.replicas(), at)
		require.Len(t, a.Scalings, round+1, "counted once")
		require.EqualValues(t, 1, p.seen.Load(), "one change of the scale for %+v", at)
	}
	u.c.WaitRunning(t, u.ns, 7)
	before := u.live()
	for round, at := range []struct {
		after          bool
		method, suffix string
	}{
		{false, http.MethodPatch, "/web/status"},
		{true, http.MethodPatch, "/web/status"},
		{false, http.MethodPatch, "/resize"},
		{true, http.MethodPatch, "/resize"},
		{true, http.MethodPatch, "/resize"},
	} {
		cpu := fmt.Sprintf("%dm", 300+10*round)
		p.kill(u, at.after, at.method, at.suffix, func() { u.recommend(v1alpha1.ChangeRequests, 7, cpu, "256Mi") })
		a := u.outcome(u.id, v1alpha1.OutcomeApplied)
		u.requireSize(7, cpu, "256Mi")
		require.Len(t, a.Resizes, round+1, "counted once")
		require.Equal(t, before, u.live())
	}

	// What somebody scales while the updater is down stays.
	p.kill(u, false, http.MethodPut, "/scale", func() {
		u.recommend(v1alpha1.ChangeReplicas, 9, "", "")
	})
	u.outcome(u.id, v1alpha1.OutcomeApplied)
	u.program.Kill(t)
	u.c.Kubectl(t, "", "scale", "deployment", "web", "-n", u.ns, "--replicas=4")
	u.program.Restart(t)
	u.c.WaitRunning(t, u.ns, 4)
	<-time.NewTimer(3 * time.Second).C
	require.EqualValues(t, 4, u.replicas(), "what was carried out is not carried out again")
	point := &cutPoint{
		is: func(r *http.Request) bool {
			return r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/scale")
		},
		reached: make(chan struct{}), resume: make(chan struct{}),
	}
	p.at.Store(point)
	u.recommend(v1alpha1.ChangeReplicas, 5, "", "")
	<-point.reached
	u.program.Kill(t)
	close(point.resume)
	u.c.Kubectl(t, "", "scale", "deployment", "web", "-n", u.ns, "--replicas=6")
	u.program.Restart(t)
	require.Contains(t, u.outcome(u.id, v1alpha1.OutcomeSuperseded).Message, "from 4 to 6")
	require.EqualValues(t, 6, u.replicas())

	// A pod is evicted once.
	u.c.Kubelet.RefuseResize(func(*v1.Pod) string { return v1.PodReasonInfeasible })
	u.c.WaitRunning(t, u.ns, 6)
	p.seen.Store(0)
	aSecond()
	p.kill(u, true, http.MethodPost, "/eviction", func() { u.recommend(v1alpha1.ChangeRequests, 6, "700m", "256Mi") })
	a := u.wait("all evicted", func(s *v1alpha1.MultidimPodAutoscalerStatus) bool {
		return s.Actuation.ID == u.id && s.Actuation.Evicted == 6
	}).Actuation
	<-time.NewTimer(15 * time.Second).C
	require.EqualValues(t, 6, u.status().Actuation.Evicted)
	require.Equal(t, a.ID, u.status().Actuation.ID)
	u.c.WaitRunning(t, u.ns, 6)
}
