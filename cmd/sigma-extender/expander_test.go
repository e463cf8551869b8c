package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/sigma-scheduler/sigma/plugins/expander"
)

// The program as expander of cluster-autoscaler: over TLS alone, ready when it has read the cluster, and without calls of a scheduler.
func TestExpander(t *testing.T) {
	api, a, f := apiServer(t), newAuthority(t), folder{t, t.TempDir()}
	kubeconfig := f.put("kubeconfig", fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: x, clusters: [{name: x, cluster: {server: %q}}],
contexts: [{name: x, context: {cluster: x, user: x}}], users: [{name: x, user: {}}]}`, api.URL))
	cert, key := a.issue(t, "expander")
	prices := f.put("prices.csv", []byte("instance_type,capacity_type,region,price_per_hour\nsmall,,,.1\nlarge,,,.3\n"))
	address, pages := freePort(t), freePort(t)
	ctx, cancel := context.WithCancel(t.Context())
	cmd := command(&options{})
	cmd.SetArgs([]string{
		"--kubeconfig", kubeconfig, "--expander-bind-address", address, "--metrics-bind-address", pages, "--metrics-plain-http",
		"--tls-cert-file", f.put("tls.crt", cert), "--tls-private-key-file", f.put("tls.key", key), "--prices", prices,
	})
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	require.Eventually(t, func() bool {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+pages+"/readyz", http.NoBody)
		require.NoError(t, err)
		response, err := http.DefaultClient.Do(request)
		return err == nil && response.Body.Close() == nil && response.StatusCode == http.StatusOK
	}, 20*time.Second, 10*time.Millisecond)

	r := &expander.BestOptionsRequest{Nodes: map[string][]byte{}}
	for kind, cores := range map[string]string{"small": "2", "large": "8"} {
		node := v1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: kind, Labels: map[string]string{v1.LabelInstanceTypeStable: kind}},
			Status:     v1.NodeStatus{Allocatable: v1.ResourceList{"cpu": resource.MustParse(cores), "memory": resource.MustParse("16Gi"), "pods": resource.MustParse("9")}},
		}
		pod := v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "x", UID: "x"}, Spec: v1.PodSpec{Containers: []v1.Container{{
			Resources: v1.ResourceRequirements{Requests: v1.ResourceList{"cpu": resource.MustParse("1")}},
		}}}}
		text, err := node.Marshal()
		require.NoError(t, err)
		r.Nodes[kind] = text
		text, err = pod.Marshal()
		require.NoError(t, err)
		r.Options = append(r.Options, &expander.Option{Group: kind, Nodes: 1, Pods: [][]byte{text}})
	}
	call := func(of credentials.TransportCredentials) (*expander.BestOptionsResponse, error) {
		conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(of))
		require.NoError(t, err)
		defer func() { require.NoError(t, conn.Close()) }()
		answer := &expander.BestOptionsResponse{}
		return answer, conn.Invoke(t.Context(), "/grpcplugin.Expander/BestOptions", r, answer)
	}
	answer, err := call(credentials.NewTLS(&tls.Config{RootCAs: a.pool(), MinVersion: tls.VersionTLS12}))
	require.NoError(t, err)
	require.Len(t, answer.GetOptions(), 1)
	require.Equal(t, "small", answer.GetOptions()[0].GetGroup())
	_, err = call(credentials.NewTLS(&tls.Config{RootCAs: newAuthority(t).pool(), MinVersion: tls.VersionTLS12}))
	require.Equal(t, codes.Unavailable, status.Code(err), "another server's certificate")

	own := credentials.NewTLS(&tls.Config{RootCAs: a.pool(), MinVersion: tls.VersionTLS12})
	connect := func() *grpc.ClientConn {
		conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(own))
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		conn.Connect()
		return conn
	}
	for range 12 { // more than it accepts
		connect()
	}
	limit, done := context.WithTimeout(t.Context(), 30*time.Second)
	defer done()
	require.NoError(t, connect().Invoke(limit, "/grpcplugin.Expander/BestOptions", r, answer, grpc.WaitForReady(true)), "idle connections end")
	_, err = connect().NewStream(limit, &grpc.StreamDesc{}, "/grpcplugin.Expander/BestOptions", grpc.WaitForReady(true))
	require.NoError(t, err)
	cancel()
	select {
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(20 * time.Second):
		require.Fail(t, "a stream without a message keeps it from ending")
	}
}

// The arguments of the manifest are flags, and valid.
func TestExpanderManifest(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "manifests", "components", "expander", "deployment.yaml"))
	require.NoError(t, err)
	first, _, _ := strings.Cut(string(text), "\n---\n")
	var d appsv1.Deployment
	require.NoError(t, yaml.UnmarshalStrict([]byte(first), &d))
	var o options
	require.NoError(t, command(&o).ParseFlags(d.Spec.Template.Spec.Containers[0].Args))
	require.NoError(t, o.validate())
	require.Equal(t, ":8444", o.expanderBind)
}
