package expander_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/cert"

	"github.com/sigma-scheduler/sigma/lab/expander"
	"github.com/sigma-scheduler/sigma/plugins/engine"
	product "github.com/sigma-scheduler/sigma/plugins/expander"
	"github.com/sigma-scheduler/sigma/plugins/kube"
)

// certificate makes one for loopback, and the file that cluster-autoscaler has of it.
func certificate(t *testing.T) (config *tls.Config, file string) {
	t.Helper()
	text, key, err := cert.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	require.NoError(t, err)
	pair, err := tls.X509KeyPair(text, key)
	require.NoError(t, err)
	file = filepath.Join(t.TempDir(), "ca.crt")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, file
}

// serve answers until the test ends, or stop is called.
func serve(t *testing.T, try func(context.Context, []engine.Offer) ([][]int, error), ready func() error) (address, authorities string, stop func()) {
	t.Helper()
	config, authorities := certificate(t)
	path := filepath.Join(t.TempDir(), "prices.csv")
	require.NoError(t, os.WriteFile(path, []byte("instance_type,capacity_type,region,price_per_hour\nsmall,,,0.10\nlarge,,,0.35\n"), 0o600))
	prices, err := kube.ReadPrices(path)
	require.NoError(t, err)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := product.New(product.Options{Try: try, Ready: ready, Refresh: func() {}, Prices: prices})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, listener, config) }()
	stop = func() {
		cancel()
		require.NoError(t, <-ended)
		ended <- nil
	}
	t.Cleanup(stop)
	return listener.Addr().String(), authorities, stop
}

// offers are pods of a cpu each, on two-core nodes or on one of eight cores.
func offers(pods int) []expander.Option {
	var list []*v1.Pod
	for i := range pods {
		list = append(list, &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("web-", i), UID: types.UID(fmt.Sprint(i)), Labels: map[string]string{"app": "web"}},
			Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{"cpu": resource.MustParse("1")}}}}},
		})
	}
	node := func(kind, cores string) *v1.Node {
		has := v1.ResourceList{"cpu": resource.MustParse(cores), "memory": resource.MustParse("32Gi"), "pods": resource.MustParse("110")}
		return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: kind, Labels: map[string]string{v1.LabelInstanceTypeStable: kind}}, Status: v1.NodeStatus{Capacity: has, Allocatable: has}}
	}
	return []expander.Option{{"small", int32((pods + 1) / 2), node("small", "2"), list}, {"large", int32((pods + 7) / 8), node("large", "8"), list}}
}

func groups(options []expander.Option) (names []string) {
	for _, o := range options {
		names = append(names, o.Group)
	}
	return names
}

func newEngine(t *testing.T) *engine.Engine {
	t.Helper()
	e, err := engine.New(engine.Options{Profile: t.Name(), PolicyName: "general", AppLabel: "app", Fleet: "open"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func ready() error { return nil }

func TestBothForms(t *testing.T) {
	address, authorities, _ := serve(t, newEngine(t).Try, ready)
	for _, old := range []bool{false, true} {
		a, err := expander.Dial(address, authorities, old)
		require.NoError(t, err)
		left, err := a.BestOptions(t.Context(), offers(8))
		require.NoError(t, err)
		require.Equal(t, []string{"large"}, groups(left), "one node for .35, not four for .40")
		left, err = a.BestOptions(t.Context(), offers(1))
		require.NoError(t, err)
		require.Equal(t, []string{"small"}, groups(left))
		left, err = a.BestOptions(t.Context(), offers(2000)) // some hundred kB
		require.NoError(t, err)
		require.Equal(t, []string{"large"}, groups(left))
		require.NoError(t, a.Close())
	}
}

// Whatever fails, all groups are left, and cluster-autoscaler's next expander decides.
func TestFaults(t *testing.T) {
	all := []string{"small", "large"}
	ask := func(address, authorities string) error {
		t.Helper()
		a, err := expander.Dial(address, authorities, false)
		require.NoError(t, err)
		defer func() { require.NoError(t, a.Close()) }()
		left, err := a.BestOptions(t.Context(), offers(8))
		require.Equal(t, all, groups(left))
		return err
	}
	address, authorities, stop := serve(t, newEngine(t).Try, ready)
	_, others := certificate(t)
	require.Equal(t, codes.Unavailable, status.Code(ask(address, others)), "a certificate of nobody it knows")
	stop()
	require.Equal(t, codes.Unavailable, status.Code(ask(address, authorities)), "it has ended")

	address, authorities, _ = serve(t, newEngine(t).Try, func() error { return errors.New("nodes and pods are not read yet") })
	require.ErrorContains(t, ask(address, authorities), "not read yet")

	address, authorities, _ = serve(t, func(context.Context, []engine.Offer) ([][]int, error) { panic("a bug") }, ready)
	require.Equal(t, codes.Internal, status.Code(ask(address, authorities)))

	address, authorities, _ = serve(t, func(ctx context.Context, _ []engine.Offer) ([][]int, error) { <-ctx.Done(); return nil, ctx.Err() }, ready)
	begin := time.Now()
	require.Equal(t, codes.DeadlineExceeded, status.Code(ask(address, authorities)))
	require.Less(t, time.Since(begin), expander.Timeout, "the server gives up before its caller does")

	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, silent.Close()) }()
	begin = time.Now()
	require.Equal(t, codes.DeadlineExceeded, status.Code(ask(silent.Addr().String(), authorities)), "a server that accepts and never answers")
	require.GreaterOrEqual(t, time.Since(begin), expander.Timeout)
}
