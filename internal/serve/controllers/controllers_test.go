package controllers

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/sigma-scheduler/sigma/internal/serve/page"
)

// filling is a cache of a large cluster, or of one whose API server does not answer yet.
type filling struct {
	cache.Cache
	filled chan struct{}
}

func (filling) Start(ctx context.Context) error { <-ctx.Done(); return nil }

func (f filling) WaitForCacheSync(ctx context.Context) bool {
	select {
	case <-f.filled:
		return true
	case <-ctx.Done():
		return false
	}
}

// While the caches fill the program is alive and not ready: the kubelet must not kill it.
func TestAliveWhileCachesFill(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // a free port
	require.NoError(t, err)
	o := &Options{MetricsBind: page.None, ProbeBind: listener.Addr().String()}
	require.NoError(t, listener.Close())
	filled := make(chan struct{})
	m, err := ctrl.NewManager(&rest.Config{Host: "127.0.0.1:1"}, ctrl.Options{
		Metrics: server.Options{BindAddress: page.None}, HealthProbeBindAddress: page.None,
		NewCache: func(*rest.Config, cache.Options) (cache.Cache, error) { return filling{filled: filled}, nil },
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	all, ctx := errgroup.WithContext(ctx)
	go func() { ended <- o.start(ctx, all, m, nil) }()
	c := &http.Client{Timeout: time.Second, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // of its own making
	}}
	get := func(path string) (int, error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+o.ProbeBind+path, http.NoBody)
		require.NoError(t, err)
		answer, err := c.Do(r)
		if err != nil {
			return 0, err
		}
		return answer.StatusCode, answer.Body.Close()
	}
	assert.Eventually(t, func() bool {
		status, err := get("/healthz")
		return err == nil && status == http.StatusOK
	}, 5*time.Second, 20*time.Millisecond)
	status, err := get("/readyz")
	assert.False(t, err == nil && status == http.StatusOK)
	close(filled)
	assert.Eventually(t, func() bool {
		status, err := get("/readyz")
		return err == nil && status == http.StatusOK
	}, 5*time.Second, 20*time.Millisecond)
	cancel()
	require.NoError(t, <-ended)
}
