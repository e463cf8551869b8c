package snapshot

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
)

// serve starts an API server that answers by a function, and with empty lists for
// the paths that the function does not know.
func serve(t *testing.T, answer func(w http.ResponseWriter, r *http.Request) (object any)) *Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		object := answer(w, r)
		if object == nil {
			object = map[string]any{"kind": "List", "apiVersion": "v1", "metadata": map[string]any{}, "items": []any{}}
		}
		w.Header().Set("Content-Type", "application/json")
		if status, ok := object.(*metav1.Status); ok {
			status.Kind, status.APIVersion = "Status", "v1"
			w.WriteHeader(int(status.Code))
		}
		_ = json.NewEncoder(w).Encode(object)
	}))
	t.Cleanup(server.Close)
	return connect(t, server.URL)
}

func connect(t *testing.T, url string) *Client {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"test",
		"clusters":[{"name":"test","cluster":{"server":%q}}],"users":[{"name":"test","user":{}}],
		"contexts":[{"name":"test","context":{"cluster":"test","user":"test"}}]}`, url)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	c, err := Connect(Access{Kubeconfig: path, Timeout: 5 * time.Second})
	require.NoError(t, err)
	return c
}

// pods is a page of a list.
func pods(next string, names ...string) *v1.PodList {
	l := &v1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, ListMeta: metav1.ListMeta{Continue: next}}
	for _, name := range names {
		l.Items = append(l.Items, *pod("web", name, "n1", "1"))
	}
	return l
}

func TestReadPages(t *testing.T) {
	expired := false
	var asked []string
	c := serve(t, func(_ http.ResponseWriter, r *http.Request) any {
		if r.URL.Path != "/api/v1/pods" {
			return nil
		}
		q := r.URL.Query()
		asked = append(asked, q.Get("limit")+" "+q.Get("continue"))
		if q.Get("fieldSelector") != notEnded {
			return nil
		}
		switch q.Get("continue") {
		case "":
			if q.Get("limit") == "" {
				return pods("", "a", "b", "c")
			}
			return pods("x", "a")
		case "x":
			if expired {
				return &apierrors.NewResourceExpired("too old").ErrStatus
			}
			return pods("y", "b")
		}
		return pods("", "c")
	})
	last := 0
	c.Seen = func(objects int) { last = objects }
	p, err := c.Read(t.Context())
	require.NoError(t, err)
	require.Len(t, p.Pods, 3)
	require.Equal(t, 3, last)
	require.Equal(t, []string{"500 ", "500 x", "500 y"}, asked)
	require.NotNil(t, p.Declared)

	expired, asked = true, nil
	p, err = c.Read(t.Context())
	require.NoError(t, err)
	require.Len(t, p.Pods, 3, "none twice")
	require.Equal(t, []string{"500 ", "500 x", " "}, asked)
}

func TestReadRules(t *testing.T) {
	known := true
	c := serve(t, func(_ http.ResponseWriter, r *http.Request) any {
		switch {
		case strings.HasPrefix(r.URL.Path, "/apis/sigma-scheduler.io/") && !known:
			return &apierrors.NewNotFound(schema.GroupResource{}, "").ErrStatus
		case r.URL.Path == "/apis/sigma-scheduler.io/v1alpha1":
			return &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}}
		case strings.HasSuffix(r.URL.Path, "/placementrules"):
			return &v1alpha1.PlacementRuleList{
				TypeMeta: metav1.TypeMeta{Kind: "PlacementRuleList", APIVersion: v1alpha1.SchemeGroupVersion.String()},
				Items: []v1alpha1.PlacementRule{
					{ObjectMeta: metav1.ObjectMeta{Name: "good"}, Spec: v1alpha1.PlacementRuleSpec{PodSet: app("web"), MaxPerNode: new(int32(1))}},
					{ObjectMeta: metav1.ObjectMeta{Name: "zones"}, Spec: v1alpha1.PlacementRuleSpec{PodSet: app("web"), MaxPerNode: new(int32(1)), TopologyKey: "topology.kubernetes.io/zone"}},
					{ObjectMeta: metav1.ObjectMeta{Name: "racks"}, Spec: v1alpha1.PlacementRuleSpec{PodSet: app("web"), MaxPerNode: new(int32(1)), TopologyKey: "rack"}},
					{ObjectMeta: metav1.ObjectMeta{Name: "bad"}, Spec: v1alpha1.PlacementRuleSpec{PodSet: app("web"), MaxPerNode: new(int32(0))}},
				},
			}
		}
		return nil
	})
	p, err := c.Read(t.Context())
	require.NoError(t, err)
	require.Len(t, p.Rules, 2)
	require.Equal(t, []string{
		"the placement rule bad is ignored: spec.maxPerNode 0: want at least 1",
		`the placement rule racks is ignored: spec.topologyKey "rack": want kubernetes.io/hostname or topology.kubernetes.io/zone`,
	}, p.Notes)
	known = false
	p, err = c.Read(t.Context())
	require.NoError(t, err)
	require.Empty(t, p.Rules)
}

// Device classes say which resources drivers serve. Without them, or without the right
// to list them, a snapshot is made all the same.
func TestReadClasses(t *testing.T) {
	resource := schema.GroupResource{Group: "resource.k8s.io", Resource: "deviceclasses"}
	var answer any
	c := serve(t, func(_ http.ResponseWriter, r *http.Request) any {
		if r.URL.Path == "/apis/resource.k8s.io/v1/deviceclasses" {
			return answer
		}
		return nil
	})
	for _, of := range []struct {
		answer any
		served []string
		note   string
	}{
		{&resourcev1.DeviceClassList{
			TypeMeta: metav1.TypeMeta{Kind: "DeviceClassList", APIVersion: resourcev1.SchemeGroupVersion.String()},
			Items:    []resourcev1.DeviceClass{{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourcev1.DeviceClassSpec{ExtendedResourceName: new("example.com/gpu")}}},
		}, []string{"deviceclass.resource.kubernetes.io/gpu", "example.com/gpu"}, ""},
		{&apierrors.NewNotFound(resource, "").ErrStatus, nil, ""},
		{&apierrors.NewForbidden(resource, "", fmt.Errorf("no")).ErrStatus, nil, "device classes cannot be read: "},
	} {
		answer = of.answer
		p, err := c.Read(t.Context())
		require.NoError(t, err)
		require.Equal(t, of.served, p.Served)
		if of.note == "" {
			require.Empty(t, p.Notes)
		} else {
			require.Len(t, p.Notes, 1)
			require.Contains(t, p.Notes[0], of.note)
		}
	}
	answer = &apierrors.NewInternalError(fmt.Errorf("on fire")).ErrStatus
	_, err := c.Read(t.Context())
	require.ErrorContains(t, err, "list deviceclasses: Internal error occurred: on fire")
}

func TestErrorsSayWhat(t *testing.T) {
	refuse := func(path string, status metav1.Status) *Client {
		return serve(t, func(_ http.ResponseWriter, r *http.Request) any {
			if strings.HasSuffix(r.URL.Path, path) {
				return &status
			}
			return nil
		})
	}
	read := func(c *Client) error {
		_, err := c.Read(t.Context())
		return err
	}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "deployments"}, "", fmt.Errorf(`User "eve" cannot list`)).ErrStatus
	require.ErrorContains(t, read(refuse("/deployments", forbidden)),
		`list deployments: forbidden: the account needs the verb list on deployments in all namespaces (deployments.apps is forbidden: User "eve" cannot list)`)
	require.ErrorContains(t, read(refuse("/nodes", apierrors.NewUnauthorized("who are you").ErrStatus)), "list nodes: the API server http://127.0.0.1:")
	require.ErrorContains(t, read(refuse("/nodes", apierrors.NewUnauthorized("who are you").ErrStatus)), "does not accept the credentials (who are you)")
	require.ErrorContains(t, read(refuse("/jobs", apierrors.NewInternalError(fmt.Errorf("on fire")).ErrStatus)), "list jobs: Internal error occurred: on fire")

	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	require.ErrorContains(t, read(connect(t, gone.URL)), "list nodes: the API server "+gone.URL+" cannot be reached: ")

	done := make(chan struct{})
	slow := serve(t, func(_ http.ResponseWriter, r *http.Request) any {
		select {
		case <-r.Context().Done():
		case <-done:
		}
		return nil
	})
	defer close(done)
	slow.timeout = 50 * time.Millisecond
	require.ErrorContains(t, read(slow), "list nodes: the API server "+slow.config.Host+" did not answer within 50ms")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := slow.Read(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

func TestConnectErrors(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	none, empty := filepath.Join(t.TempDir(), "none"), filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	t.Setenv("KUBECONFIG", none)
	_, err := Connect(Access{})
	require.EqualError(t, err, "no kubeconfig: KUBECONFIG names "+none+", which does not exist")
	t.Setenv("KUBECONFIG", empty+string(filepath.ListSeparator)+none)
	_, err = Connect(Access{})
	require.EqualError(t, err, "no kubeconfig: KUBECONFIG names "+none+", which does not exist")
	t.Setenv("KUBECONFIG", empty)
	_, err = Connect(Access{})
	require.EqualError(t, err, "no kubeconfig: KUBECONFIG names "+empty+", which has no cluster")
	_, err = Connect(Access{Kubeconfig: filepath.Join(t.TempDir(), "missing")})
	require.ErrorContains(t, err, "missing: no such file or directory")
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(path, []byte("apiVersion: v1\nkind: Config\n"), 0o600))
	_, err = Connect(Access{Kubeconfig: path, Context: "prod"})
	require.ErrorContains(t, err, `context "prod" does not exist`)
}

func TestPolicyOfTheCluster(t *testing.T) {
	object := func(name string) *v1alpha1.PlacementPolicy {
		return &v1alpha1.PlacementPolicy{
			TypeMeta:   metav1.TypeMeta{Kind: "PlacementPolicy", APIVersion: v1alpha1.SchemeGroupVersion.String()},
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: "x", Generation: 3, Annotations: map[string]string{"a": "b"}},
			Spec: v1alpha1.PlacementPolicySpec{
				FeatureVersion: 1, Model: "linear", Knowledge: "K1", Features: []string{"util"}, Weights: []float64{-1}, Mode: "shadow",
			},
		}
	}
	c := serve(t, func(_ http.ResponseWriter, r *http.Request) any {
		switch path := r.URL.Path; {
		case strings.HasSuffix(path, "/v1alpha1"):
			return &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}}
		case strings.HasSuffix(path, "/placementpolicies/mine"):
			return object("mine")
		case strings.HasSuffix(path, "/placementpolicies"):
			return &v1alpha1.PlacementPolicyList{
				TypeMeta: metav1.TypeMeta{Kind: "PlacementPolicyList", APIVersion: v1alpha1.SchemeGroupVersion.String()},
				Items:    []v1alpha1.PlacementPolicy{*object("mine"), *object("yours")},
			}
		case strings.Contains(path, "/placementpolicies/"):
			return &apierrors.NewNotFound(v1alpha1.Resource("placementpolicies"), "general").ErrStatus
		}
		return nil
	})
	p, err := c.Policy(t.Context(), "mine")
	require.NoError(t, err)
	require.EqualValues(t, "shadow", p.Spec.Mode)
	require.Equal(t, []float64{-1}, p.Spec.Weights)
	_, err = c.Policy(t.Context(), "general")
	require.EqualError(t, err, "the cluster has no PlacementPolicy general; with --policy-name there are mine, yours")
}
